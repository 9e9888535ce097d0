// The module alone, on problems that are written here.
import assert from "node:assert/strict";
import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { after, test } from "node:test";

import { TopogradError, load } from "./module.js";
import { certified, chain, code, indices, misra, misraX, misraY, near, removeFolders, write } from "./problems.js";

after(removeFolders);

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

test("a pinned block stays where an array is set", async () => {
  const p = await load(write(...chain(10))), start = p.parameters("points");
  p.pin("points", 1, [7, 7]);
  p.set("points", start);
  const expected = start.slice();
  expected.set([7, 7], 2);
  assert.deepEqual(p.parameters("points"), expected);
  await p.minimize();
  assert.deepEqual([...p.parameters("points").subarray(2, 4)], [7, 7]);
  p.release("points", 1);
  p.set("points", start);
  assert.deepEqual(p.parameters("points"), start);
});

test("numbers that are no point of their manifold are refused", async () => {
  const p = await load(write(...circle()));
  const refused = code("argument", /"point": block 0 is \(0, 0\), which is no point of its manifold/);
  assert.throws(() => p.set("point", [0, 0]), refused);
  assert.throws(() => p.pin("point", 0, [0, 0]), refused);
  assert.deepEqual([...p.parameters("point")], [1, 0]);
  await p.minimize({ functionTolerance: 1e-15 });  // it is not pinned
  near(p.parameters("point")[0], 0.6, 1e-7);
  p.set("point", [0, 2]);
  p.pin("point", 0, [-1, 0]);
  assert.deepEqual([...p.parameters("point")], [-1, 0]);
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

/** A signal that never ends a solve, and calls a function between the iterations of each step. */
const between = (work) => ({ get aborted() { work(); return false; } });

/** Two numbers, with an energy or a residual each, whose minima are 3 and -2. */
const pair = (more, kernels) => [{
  name: "pair", scalars: 2, arrays: [{ name: "x", offset: 0, width: 1, blocks: 2 }],
  terms: [{ name: "pull", rows: 1, instances: 2, parameters: 1, data: 1, cost: "cost", index: indices([0], [1]),
            numbers: Float64Array.of(3, -2), ...more }],
  x: Float64Array.of(0, 0), options: more.gradient ? { method: "lbfgs" } : {} }, kernels];
for (const [name, problem, options] of [
  ["squares", pair({ jacobian: "rows" }, `
export function rows(p, d, u, out) { out.set([Math.sinh(p[0] - d[0]), Math.cosh(p[0] - d[0])]); }
export function cost(p, d, u, out) { out[0] = Math.sinh(p[0] - d[0]) ** 2 / 2; }`), { linearSolver: "cg" }],
  ["energies", pair({ gradient: "gradient" }, `
export function cost(p, d, u, out) { out[0] = Math.cosh(p[0] - d[0]); }
export function gradient(p, d, u, out) { out.set([Math.sinh(p[0] - d[0]), Math.cosh(p[0] - d[0])]); }`), {}]])
  for (const [what, begin, work, check] of [
    ["released at any time moves", (p) => p.pin("x", 0, [0]), (p) => p.release("x", 0),
     (p) => near(p.parameters("x")[0], 3, 1e-5)],
    ["pinned at any time stays", () => {}, (p) => p.pin("x", 1, [-0.25]),
     (p) => assert.equal(p.parameters("x")[1], -0.25)],
  ])
    test(`a block that is ${what}: ${name}`, async () => {
      const run = async (at) => {
        const p = await load(write(...problem));
        let calls = 0;
        begin(p);
        const signal = between(() => { if (++calls === at) work(p); });
        const summary = await p.minimize({ ...options, functionTolerance: 1e-14, maxIterations: 100, signal });
        return { p, calls, summary };
      };
      const { calls } = await run(0);
      for (let at = 1; at <= calls; ++at) {
        const { p, summary } = await run(at);
        assert.equal(summary.status, "convergence");
        check(p);
        near(summary.finalCost, p.cost(), 1e-12, `at ${at} of ${calls}`);
      }
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

test("damaged files are refused", async () => {
  const address = write(...circle()), path = new URL("problem.bin", address), bytes = readFileSync(path);
  const end = 16 + bytes.readUInt32LE(12);
  let refused = 0;
  for (let k = 6; k < end; ++k) {
    for (const flip of [1, 4, 16, 128]) {
      const changed = Buffer.from(bytes);
      changed[k] ^= flip;
      writeFileSync(path, changed);
      try {
        await load(address);
      } catch (error) {
        assert.ok(error instanceof TopogradError, `byte ${k}: ${error}`);
        assert.match(error.code, /^(file|version)$/, `byte ${k}: ${error}`);
        ++refused;
      }
    }
  }
  assert.ok(refused > end, `${refused}`);  // others change names
  const outside = write(...misra([1, 1]), (whole) => {
    whole.writeUInt32LE(99, 16 + whole.readUInt32LE(12));  // the first index
    return whole;
  });
  await assert.rejects(load(outside), code("file", /the file is damaged \(indices of "fit"\)/));
  await assert.rejects(load(write(misra([1, 1])[0], "export { ;")), code("file", /kernels\.js: the module cannot be loaded/));
  const without = write(...misra([1, 1]));
  rmSync(new URL("kernels.js", without));
  await assert.rejects(load(without), code("file", /kernels\.js/));
});

test("a start whose cost is not finite is refused", async () => {
  const p = await load(write(...misra([500, -1e9])));
  await assert.rejects(p.minimize(), code("nonfinite", /the cost of the start is (Infinity|NaN)/));
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
