// The module alone, on problems that are written here.
import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import { after, test } from "node:test";

import { load } from "../topograd.js";
import { code, indices, near, removeFolders, write } from "./problems.js";

after(removeFolders);

const misraX = [77.6, 114.9, 141.1, 190.8, 239.9, 289.0, 332.8, 378.4, 434.8, 477.3, 536.8, 593.1,
                689.1, 760.0];
const misraY = [10.07, 14.73, 17.94, 23.93, 29.61, 35.18, 40.02, 44.82, 50.76, 55.05, 61.01, 66.40,
                75.47, 81.78];

/** NIST's Misra1a: y = b1 (1 - exp(-b2 x)). */
function misra(start, more = {}) {
  const rows = misraX.length;
  return [{
    name: "Misra1a", scalars: 2,
    arrays: [{ name: "b", offset: 0, width: 2, blocks: 1 }],
    terms: [{
      name: "fit", rows: 1, instances: rows, parameters: 2, data: 2, cost: "cost",
      jacobian: "rows", index: indices(...misraX.map(() => [0, 1])),
      numbers: Float64Array.from([...misraX, ...misraY]),
    }],
    x: Float64Array.from(start), ...more,
  }, `
export function rows(p, d, u, out) {
  const e = Math.exp(-p[1] * d[0]);
  out[0] = p[0] * (1 - e) - d[1];
  out[1] = 1 - e;
  out[2] = p[0] * d[0] * e;
}
export function cost(p, d, u, out) {
  const out3 = new Float64Array(3);
  rows(p, d, u, out3);
  out[0] = out3[0] ** 2 / 2;
}`];
}
const certified = { b1: 2.3894212918e2, b2: 5.5015643181e-4, cost: 1.2455138894e-1 / 2 };

/** The point of a unit circle, held by a manifold, that is nearest to (3, 4). */
function circle() {
  return [{
    name: "circle", scalars: 2,
    arrays: [{ name: "point", offset: 0, width: 2, blocks: 1 }],
    manifolds: [{ width: 2, tangent: 1, plus: "plus", basis: "basis",
                  blocks: Uint32Array.from([0]) }],
    terms: [{
      name: "distance", rows: 2, instances: 1, parameters: 2, data: 2, cost: "cost",
      jacobian: "rows", index: indices([0, 1]), numbers: Float64Array.from([3, 4]),
    }],
    x: Float64Array.from([1, 0]),
  }, `
export function cost(p, d, u, out) { out[0] = ((p[0] - d[0]) ** 2 + (p[1] - d[1]) ** 2) / 2; }
export function rows(p, d, u, out) { out.set([p[0] - d[0], p[1] - d[1], 1, 0, 0, 1]); }
export function plus(p, d, u, t, out) {
  const c = Math.cos(t[0]), s = Math.sin(t[0]);
  out.set([c * p[0] - s * p[1], s * p[0] + c * p[1]]);
}
export function basis(p, d, u, out) { out.set([-p[1], 0, p[0], 0]); }`];
}

/** A chain of points; neighbours are one apart, and the ends are held by springs. */
function chain(points) {
  const between = points - 1;
  const index = [];
  for (let k = 0; k < between; ++k) index.push([2 * k, 2 * k + 1, 2 * k + 2, 2 * k + 3]);
  const none = new Float64Array(0);
  return [{
    name: "chain", scalars: 2 * points,
    arrays: [{ name: "points", offset: 0, width: 2, blocks: points }],
    terms: [
      { name: "spring", rows: 1, instances: between, parameters: 4, data: 0,
        cost: "cost", jacobian: "rows", index: indices(...index), numbers: none },
      { name: "end", rows: 2, instances: 2, parameters: 2, data: 2,
        cost: "endCost", jacobian: "endRows",
        index: indices([0, 1], [2 * points - 2, 2 * points - 1]),
        // Two columns, as differences of codes: 0 and 1.3 times the number of springs; 0 and 0.
        numbers: { values: Float64Array.from([0, 1.3 * between]),
                   codes: Uint32Array.from([0, 2, -2, 0]) } },
    ],
    x: Float64Array.from({ length: 2 * points },
                         (_, k) => k % 2 === 0 ? 0.65 * k : Math.sin(k) / 20),
  }, `
export function rows(p, d, u, out) {
  const x = p[2] - p[0], y = p[3] - p[1], l = Math.hypot(x, y);
  out.set([l - 1, -x / l, -y / l, x / l, y / l]);
}
export function cost(p, d, u, out) { out[0] = (Math.hypot(p[2] - p[0], p[3] - p[1]) - 1) ** 2 / 2; }
export function endRows(p, d, u, out) { out.set([p[0] - d[0], p[1] - d[1], 1, 0, 0, 1]); }
export function endCost(p, d, u, out) { out[0] = ((p[0] - d[0]) ** 2 + (p[1] - d[1]) ** 2) / 2; }`];
}

test("Misra1a reaches NIST's certified values from both of its starts", async () => {
  for (const start of [[500, 0.0001], [250, 0.0005]]) {
    const p = await load(write(...misra(start)));
    const tolerance = Number.EPSILON;
    const summary = await p.minimize({ maxIterations: 100, functionTolerance: tolerance,
                                       gradientTolerance: tolerance, parameterTolerance: tolerance });
    assert.equal(summary.status, "convergence");
    const [b1, b2] = p.parameters("b");
    near(b1 / certified.b1, 1, 1e-8);
    near(b2 / certified.b2, 1, 1e-8);
    near(summary.finalCost / certified.cost, 1, 1e-9);
  }
});

test("bounds hold, and the best point within them is found", async () => {
  const [header, kernels] = misra([250, 0.0005]);
  // With b1 at its upper bound, b2 alone is fitted.
  const p = await load(write({ ...header, lower: Float64Array.from([0, 0]),
                               upper: Float64Array.from([235, 1]),
                               x: Float64Array.from([230, 0.0005]) }, kernels));
  const summary = await p.minimize({ maxIterations: 200, functionTolerance: 1e-14 });
  assert.equal(summary.status, "convergence");
  const [b1, b2] = p.parameters("b");
  assert.equal(b1, 235);
  const sum = (b) => misraX.reduce((s, x, k) => s + (235 * (1 - Math.exp(-b * x)) - misraY[k]) ** 2, 0);
  assert.ok(sum(b2) < sum(b2 * (1 + 1e-6)) && sum(b2) < sum(b2 * (1 - 1e-6)));
  assert.throws(() => p.set("b", [236, 0.1]), code("argument", /outside its bounds \[0, 235\]/));
});

test("a block on a manifold stays there", async () => {
  const p = await load(write(...circle()));
  const summary = await p.minimize({ functionTolerance: 1e-15 });
  assert.equal(summary.status, "convergence");
  const [x, y] = p.parameters("point");
  near(x, 0.6, 1e-7);
  near(y, 0.8, 1e-7);
  near(summary.finalCost, 8, 1e-12);  // distance 4
});

test("factors and conjugate gradients take the same steps", async () => {
  const address = write(...chain(120));
  const costs = {};
  for (const linearSolver of ["factor", "cg"]) {
    const p = await load(address);
    costs[linearSolver] = [];
    const options = { linearSolver, linearTolerance: 1e-13, maxLinearIterations: 5000,
                      maxIterations: 6 };
    for await (const step of p.solve(options)) costs[linearSolver].push(step.cost);
  }
  assert.equal(costs.factor.length, costs.cg.length);
  costs.factor.forEach((cost, k) =>
    near(costs.cg[k] / cost, 1, 1e-8, `step ${k}`));
});

test("a pinned block stays, and goes on once it is released", async () => {
  const p = await load(write(...chain(10)));
  p.pin("points", 5, [2, 3]);
  await p.minimize();
  assert.deepEqual([...p.parameters("points").subarray(10, 12)], [2, 3]);
  const held = p.cost();
  p.release("points", 5);
  const summary = await p.minimize();
  assert.ok(summary.finalCost < held);
});

test("data are replaced by label", async () => {
  const p = await load(write(...circle()));
  p.set("distance", [-3, 4]);
  assert.deepEqual([...p.data("distance")], [-3, 4]);
  await p.minimize({ functionTolerance: 1e-15 });
  near(p.parameters("point")[0], -0.6, 1e-7);
});

test("numbers that change during a solve count from the next step on", async () => {
  const p = await load(write(...circle()));
  const steps = p.solve({ maxIterations: 100, functionTolerance: 1e-15 });
  await steps.next();
  p.set("distance", [0, -2]);
  let next;
  do next = await steps.next(); while (!next.done);
  assert.equal(next.value.status, "convergence");
  const [x, y] = p.parameters("point");
  near(x, 0, 1e-7);
  near(y, -1, 1e-7);
  near(next.value.finalCost, 0.5, 1e-12);
  assert.equal(next.value.initialCost, 10);
});

test("nothing to move is convergence", async () => {
  const p = await load(write(...misra([500, 0.0001])));
  p.pin("b", 0, [500, 0.0001]);
  const summary = await p.minimize();
  assert.equal(summary.status, "convergence");
  assert.equal(summary.finalCost, summary.initialCost);
});

test("leaving the loop and an abort end a solve at an accepted point", async () => {
  const p = await load(write(...misra([500, 0.0001])));
  for await (const step of p.solve()) {
    assert.equal(p.cost(), step.cost);
    if (step.iteration === 3) break;
  }
  const controller = new AbortController();
  controller.abort();
  assert.equal((await p.minimize({ signal: controller.signal })).status, "aborted");
  assert.equal((await p.minimize()).status, "convergence");
});

test("wrong files are refused", async () => {
  const cut = write(...misra([1, 1]), (bytes) => bytes.subarray(0, bytes.length - 8));
  await assert.rejects(load(cut), code("file", /cut/));
  const other = write(...misra([1, 1]), (bytes) => {
    bytes.writeUInt32LE(7, 8);
    return bytes;
  });
  await assert.rejects(load(other), code("version", /version 2, got version 7/));
  const no = write(...misra([1, 1]), () => Buffer.from("<!doctype html><html></html>"));
  await assert.rejects(load(no), code("file", /expected a file that topograd export web wrote/));
  const [header] = misra([1, 1]);
  await assert.rejects(load(write(header, "export const none = 0;")), code("file", /no function/));
  await assert.rejects(load("file:///nowhere/"), code("file", /nowhere/));
  await assert.rejects(load("nowhere"), code("argument", /nowhere/));
});

test("wrong names, numbers and options are refused", async () => {
  const p = await load(write(...misra([500, 0.0001])));
  assert.throws(() => p.parameters("c"), code("argument", /one of the arrays b, got "c"/));
  assert.throws(() => p.set("b", [1]), code("argument", /expected 2 numbers, got 1/));
  assert.throws(() => p.set("b", [1, NaN]), code("nonfinite", /got NaN at 1/));
  assert.throws(() => p.set("b", ["1", 2]), code("nonfinite", /got 1 at 0/));
  assert.throws(() => p.set("x", [1]), code("argument", /residuals fit, got "x"/));
  assert.throws(() => p.pin("b", 1, [1, 2]), code("argument", /from 0 to 0, got 1/));
  await assert.rejects(p.minimize({ iterations: 3 }), code("argument", /got "iterations"/));
  await assert.rejects(p.minimize({ maxIterations: 1.5 }), code("argument", /whole number/));
  await assert.rejects(p.minimize({ functionTolerance: NaN }), code("argument", /got NaN/));
  await assert.rejects(p.minimize({ linearSolver: "lu" }), code("argument", /factor, cg, got lu/));
  const first = p.solve();
  await first.next();
  await assert.rejects(p.minimize(), code("busy", /being solved/));
  await first.return();
});

test("a start whose cost is not finite is refused", async () => {
  const p = await load(write(...misra([500, -1e9])));
  await assert.rejects(p.minimize(), code("nonfinite", /the cost of the start is (Infinity|NaN)/));
});

/** WebGPU with an adapter that has these limits, and no device. */
const adapter = (limits) => ({
  requestAdapter: async () => ({
    limits, info: { description: "none" },
    requestDevice: async () => { throw new Error("there is no device"); },
  }),
});
const ample = { maxStorageBufferBindingSize: 2 ** 30, maxBufferSize: 2 ** 30 };

test("without WebGPU the problem is solved in JavaScript, unless a caller insists", async () => {
  const address = write(...misra([500, 0.0001]));
  const no = { requestAdapter: async () => null };
  const p = await load(address, { gpu: no });
  assert.equal(p.device, "JavaScript");
  assert.match(p.reason, /small: 2 unknowns/);
  assert.equal((await p.minimize()).device, "JavaScript");
  await assert.rejects(load(address, { device: "webgpu", gpu: no }), code("adapter", /no adapter/));
  await assert.rejects(load(address, { device: "gpu" }), code("argument", /got gpu/));
  await assert.rejects(load(address, { precision: "f16" }), code("argument", /mixed, f32, got f16/));
  const f32 = { device: "webgpu", precision: "f32", gpu: adapter(ample) };
  await assert.rejects(load(address, f32), code("file", /with --f32/));
  for (const device of ["automatic", "javascript"])
    await assert.rejects(load(address, { device, precision: "f32" }), code("file", /with --f32/));
  assert.equal((await load(address, { device: "javascript" })).device, "JavaScript");
  const large = await load(write(...chain(2000)), { gpu: no });
  assert.match(large.reason, /no adapter/);
});

test("buffers beyond the adapter's limits, and a device that does not open", async () => {
  const small = adapter({ ...ample, maxStorageBufferBindingSize: 256 });
  const asked = await load(write(...misra([500, 0.0001])), { device: "webgpu", gpu: small });
  await assert.rejects(asked.minimize(), code("limit", /has at most 256 \(maxStorageBufferBindingSize\)/));
  assert.deepEqual([...asked.parameters("b")], [500, 0.0001]);
  for (const gpu of [small, adapter(ample)]) {
    const p = await load(write(...chain(2000)), { gpu });
    assert.equal(p.device, "WebGPU (none), mixed");
    assert.equal((await p.minimize({ maxIterations: 2 })).device, "JavaScript");
    assert.equal(p.device, "JavaScript");
    assert.match(p.reason, /at most 256|there is no device/);
  }
});

const noNpm = spawnSync("npm", ["--version"]).status !== 0 ? "no npm" : false;
test("npm packs the module, its types and its README in 60 kB", { skip: noNpm }, () => {
  const folder = new URL("..", import.meta.url);
  const [packed] = JSON.parse(execFileSync("npm", ["pack", "--dry-run", "--json", "--offline"],
                                           { cwd: folder, stdio: ["ignore", "pipe", "ignore"] }));
  const names = packed.files.map(({ path }) => path);
  for (const name of ["topograd.js", "gpu.js", "wgsl.js", "topograd.d.ts", "README.md", "package.json"])
    assert.ok(names.includes(name), name);
  assert.ok(packed.size <= 60e3, `${packed.size} bytes`);
});

test("in Node, WebGPU is that of the package webgpu", async (t) => {
  const address = write(...misra([500, 0.0001]));
  let p;
  try {
    p = await load(address, { device: "webgpu" });
  } catch (error) {
    assert.equal(error.code, "adapter");
    return t.skip(error.message);
  }
  const summary = await p.minimize({ maxIterations: 1000, functionTolerance: 1e-13 });
  assert.match(summary.device, /^WebGPU \(.+\), mixed$/);
  near(summary.finalCost / certified.cost, 1, 1e-9);
  p.close();
  p.set("b", [500, 0.0001]);
  assert.equal((await p.minimize({ maxIterations: 2 })).device, summary.device);
  p.close();
});
