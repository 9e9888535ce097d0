// Starts at which the derivative of an unknown is zero, and no minimum is.
import assert from "node:assert/strict";
import { after, test } from "node:test";

import { load } from "./module.js";
import { indices, near, removeFolders, write } from "./problems.js";

after(removeFolders);

/**
 * Parts of two unknowns, in some unit, with two residuals f and g.
 *
 * @param rows text of f, g and their derivatives by a and b, all as functions of a and b
 */
function parts(count, start, unit, [f, g, fa, fb, ga, gb]) {
  const index = Array.from({ length: count }, (_, k) => [2 * k, 2 * k + 1]);
  return [{
    name: "parts", scalars: 2 * count,
    arrays: [{ name: "x", offset: 0, width: 2, blocks: count }],
    terms: [{
      name: "part", rows: 2, instances: count, parameters: 2, data: 0, cost: "cost", jacobian: "rows",
      index: indices(...index), numbers: new Float64Array(0),
    }],
    x: new Float64Array(2 * count).fill(start * unit),
  }, `
const unit = ${unit};
export function rows(p, d, u, out) {
  const a = p[0] / unit, b = p[1] / unit;
  out.set([${f}, ${g}, (${fa}) / unit, (${fb}) / unit, (${ga}) / unit, (${gb}) / unit]);
}
export function cost(p, d, u, out) {
  const all = new Float64Array(6);
  rows(p, d, u, all);
  out[0] = (all[0] ** 2 + all[1] ** 2) / 2;
}`];
}

const kinds = {
  square: ["a * a - 1", "b - 3", "2 * a", "0", "0", "1"],
  squares: ["a * a - 1", "b * b - 1", "2 * a", "0", "0", "2 * b"],
  "absolute value": ["Math.abs(a) - 1", "b - 3", "Math.sign(a)", "0", "0", "1"],
  product: ["a * b - 1", "0", "b", "a", "0", "0"],
  "product, other sides": ["a * b + 1", "0", "b", "a", "0", "0"],
  "fourth power": ["a ** 4 - 1", "b - 3", "4 * a ** 3", "0", "0", "1"],
};

for (const [name, rows] of Object.entries(kinds))
  for (const count of [1, 3])
    for (const unit of [1, 1e12, 1e-12])
      test(`${name}: ${count} in units of ${unit}`, async () => {
        const p = await load(write(...parts(count, 0, unit, rows)));
        const summary = await p.minimize({ functionTolerance: 1e-12 });
        assert.equal(summary.status, "convergence", summary.message);
        near(summary.finalCost, 0, 1e-8 * summary.initialCost, summary.message);
      });

test("a minimum at the zero of a square is one, and unknowns that nothing reads are no reason to go on", async () => {
  const rows = ["a * a + 1", "b - 3", "2 * a", "0", "0", "1"];
  const [header, kernels] = parts(1, 0, 1, rows);
  header.scalars = 4;
  header.arrays[0].blocks = 2;
  header.x = new Float64Array(4);
  const p = await load(write(header, kernels));
  const summary = await p.minimize();
  assert.equal(summary.status, "convergence", summary.message);
  near(summary.finalCost, 0.5, 1e-9);
  assert.ok(summary.iterations <= 6, `${summary.iterations} steps`);
});
