// Energies by the module alone, on problems that are written here.
import assert from "node:assert/strict";
import { after, test } from "node:test";

import { load } from "./module.js";
import { code, indices, near, removeFolders, write } from "./problems.js";

after(removeFolders);

const none = new Float64Array(0);

/** A problem whose energies have kernels of these names, one for each block of its only array. */
function blocks(count, width, x, kernels, more = {}) {
  const rows = Array.from({ length: count }, (_, k) => Array.from({ length: width }, (_, c) => width * k + c));
  const term = { name: "energy", rows: 1, instances: count, parameters: width, data: 0,
                 cost: "cost", gradient: "gradient", index: indices(...rows), numbers: none };
  for (const name of ["hessian", "hvp"])
    if (kernels.includes(`function ${name}(`)) term[name] = name;
  return [{
    name: "energies", scalars: width * count,
    arrays: [{ name: "x", offset: 0, width, blocks: count }], terms: [term],
    x: Float64Array.from(x), options: { method: "newton", maxIterations: 100 }, ...more,
  }, kernels];
}

/** Rosenbrock's function of two numbers, as an energy, for some starts at once. */
const rosenbrock = (hessian) => blocks(3, 2, [-1.2, 1, 0.5, -1, 2, 2], `
export function cost(p, d, u, out) { out[0] = 100 * (p[1] - p[0] ** 2) ** 2 + (1 - p[0]) ** 2; }
export function gradient(p, d, u, out) {
  const a = p[1] - p[0] ** 2;
  out.set([-400 * p[0] * a - 2 * (1 - p[0]), 200 * a]);
  cost(p, d, u, out.subarray(2));
}
${hessian}`);
const packed = `
export function hessian(p, d, u, out) {
  out.set([1200 * p[0] ** 2 - 400 * p[1] + 2, -400 * p[0], 200]);
}`;
const product = `
export function hvp(p, d, u, t, out) {
  out.set([(1200 * p[0] ** 2 - 400 * p[1] + 2) * t[0] - 400 * p[0] * t[1], -400 * p[0] * t[0] + 200 * t[1]]);
}`;

const tight = { functionTolerance: 1e-14, gradientTolerance: 1e-12, parameterTolerance: 1e-12 };

for (const [name, hessian, options, least] of [
  ["newton with a triangle of numbers", packed, { method: "newton" }, 5],
  ["newton with products", product, { method: "newton" }, 5],
  ["newton by conjugate gradients", packed, { method: "newton", linearSolver: "cg" }, 5],
  ["lbfgs", "", { method: "lbfgs" }, 10],
]) {
  test(`Rosenbrock's function by ${name}`, async () => {
    const p = await load(write(...rosenbrock(hessian)));
    assert.equal(p.device, "JavaScript");
    let last = p.cost();
    const steps = p.solve({ ...options, ...tight });
    let next;
    while (!(next = await steps.next()).done) {
      assert.ok(next.value.cost <= last);
      last = next.value.cost;
    }
    const summary = next.value;
    assert.equal(summary.status, "convergence", summary.message);
    assert.ok(summary.iterations >= least && summary.iterations < 100, `${summary.iterations}`);
    p.parameters("x").forEach((value) => near(value, 1, 1e-7, "x"));
    assert.equal(summary.finalCost, p.cost());
    assert.equal(summary.linearSolver,
                 options.method === "lbfgs" ? "none" : options.linearSolver ?? "factor");
  });
}

test("both kinds of second derivatives take the same steps", async () => {
  const costs = [];
  for (const hessian of [packed, product]) {
    const p = await load(write(...rosenbrock(hessian)));
    const own = [];
    for await (const step of p.solve()) own.push(step.cost);
    costs.push(own);
  }
  assert.deepEqual(costs[0], costs[1]);
});

/** (x − 1)² / 50 − y² + y⁴ / 4: a saddle at (1, 0), and minima at y = ±√2. */
const saddle = (x, y, more) => blocks(1, 2, [x, y], `
export function cost(p, d, u, out) { out[0] = (p[0] - 1) ** 2 / 50 - p[1] ** 2 + p[1] ** 4 / 4; }
export function gradient(p, d, u, out) {
  out.set([(p[0] - 1) / 25, -2 * p[1] + p[1] ** 3]);
  cost(p, d, u, out.subarray(2));
}
export function hessian(p, d, u, out) { out.set([1 / 25, 0, -2 + 3 * p[1] ** 2]); }`, more);

test("a saddle is no end", async () => {
  for (const options of [{ method: "newton" }, { method: "newton", linearSolver: "cg" }, { method: "lbfgs" }]) {
    const p = await load(write(...saddle(2, 0)));
    const summary = await p.minimize(options);
    assert.equal(summary.status, "convergence");
    near(summary.finalCost, -1, 1e-6, "cost");
    p.set("x", [2, 0]);
    near((await p.minimize({ ...options, maxEscapes: 0 })).finalCost, 0, 1e-9, "cost of the saddle");
  }
});

test("bounds hold", async () => {
  for (const method of ["newton", "lbfgs"]) {
    const p = await load(write(...saddle(2, 0.5, { lower: Float64Array.from([1.25, 0]),
                                                   upper: Float64Array.from([3, 1.2]) })));
    const summary = await p.minimize({ method });
    assert.equal(summary.status, "convergence", summary.message);
    assert.deepEqual([...p.parameters("x")], [1.25, 1.2]);
  }
});

test("lbfgs keeps blocks on their manifolds", async () => {
  const [header, kernels] = blocks(1, 2, [1, 0], `
export function cost(p, d, u, out) { out[0] = -3 * p[0] - 4 * p[1]; }
export function gradient(p, d, u, out) { out.set([-3, -4]); cost(p, d, u, out.subarray(2)); }
export function plus(p, d, u, t, out) {
  const c = Math.cos(t[0]), s = Math.sin(t[0]);
  out.set([c * p[0] - s * p[1], s * p[0] + c * p[1]]);
}
export function basis(p, d, u, out) { out.set([-p[1], 0, p[0], 0]); }`);
  const p = await load(write({ ...header, options: { method: "lbfgs" },
    manifolds: [{ width: 2, tangent: 1, plus: "plus", basis: "basis", blocks: Uint32Array.from([0]) }] },
    kernels));
  const summary = await p.minimize({ functionTolerance: 1e-15 });
  assert.equal(summary.status, "convergence");
  near(p.parameters("x")[0], 0.6, 1e-6, "x");
  near(p.parameters("x")[1], 0.8, 1e-6, "y");
  near(summary.finalCost, -5, 1e-10, "cost");
  await assert.rejects(p.minimize({ method: "newton" }), code("argument", /one of lbfgs, got newton/));
});

test("pinned blocks stay, and numbers that change during a solve count from the next step on", async () => {
  for (const options of [{ method: "newton" }, { method: "newton", linearSolver: "cg" }, { method: "lbfgs" }]) {
    const p = await load(write(...rosenbrock(packed)));
    p.pin("x", 1, [0.25, -0.5]);
    const steps = p.solve({ ...options, ...tight });
    await steps.next();
    p.set("x", [0, 0, 0.25, -0.5, 3, 3]);
    let next;
    do next = await steps.next(); while (!next.done);
    assert.equal(next.value.status, "convergence", next.value.message);
    const x = [...p.parameters("x")];
    assert.deepEqual(x.slice(2, 4), [0.25, -0.5]);
    [0, 1, 4, 5].forEach((k) => near(x[k], 1, 1e-7, "x"));
    p.release("x", 1);
    assert.ok((await p.minimize({ ...options, ...tight })).finalCost < 1e-12);
  }
});

test("an abort ends a solve at an accepted point", async () => {
  const p = await load(write(...rosenbrock(packed)));
  const controller = new AbortController(), costs = [];
  for (const steps = p.solve({ signal: controller.signal });;) {
    const next = await steps.next();
    if (next.done) {
      assert.equal(next.value.status, "aborted");
      assert.equal(next.value.finalCost, costs.at(-1));
      break;
    }
    costs.push(next.value.cost);
    if (costs.length === 2) controller.abort();
  }
  assert.equal(p.cost(), costs.at(-1));
  const short = await p.minimize({ maxIterations: 1 });
  assert.equal(short.status, "no_convergence");
  assert.match(short.message, /maximum number of iterations reached: 1/);
});

test("wrong options, starts and devices are refused", async () => {
  const address = write(...rosenbrock(packed)), p = await load(address);
  await assert.rejects(p.minimize({ method: "levenberg_marquardt" }),
                       code("argument", /one of newton, lbfgs, got levenberg_marquardt/));
  await assert.rejects(p.minimize({ maxEscapes: 0.5 }), code("argument", /whole number/));
  p.set("x", [1e200, 0, 0, 0, 0, 0]);
  await assert.rejects(p.minimize(), code("nonfinite", /the cost of the start is Infinity/));
  assert.equal(p.residuals("energy").length, 3);
  await assert.rejects(load(address, { device: "webgpu" }),
                       code("device", /energies are minimised in JavaScript/));
  assert.match((await load(address)).reason, /energies are minimised in JavaScript/);
});
