// Ends and steps of problem files, against published values and the command.
import assert from "node:assert/strict";
import { after, test } from "node:test";

import { load, native, removeFolder, skip, write } from "./command.js";
import { near } from "./problems.js";

after(removeFolder);

/** A fit of curves through points, from a start. */
function fit(expression, start, x, y, more = {}) {
  const names = Object.keys(start);
  return {
    parameters: names.map((name) => ({ name, values: [start[name]] })), data: { x, y },
    residuals: [{ expressions: [`${expression} - y`], parameters: names, data: ["x", "y"], ...more }],
  };
}

/** Solves both ways, and compares the costs of all steps but the last ones, which rounding may change. */
async function compareSteps(problem, options = {}, until = Infinity) {
  const path = write(problem), report = native([path, "--linear", "cholesky"]), { p } = await load([path]);
  const steps = [], solve = p.solve(options);
  let next;
  while (!(next = await solve.next()).done) steps.push(next.value);
  steps.slice(0, until).forEach((step, k) => {
    near(step.cost / report.history[k + 1].cost, 1, 1e-9, `cost of step ${k + 1}`);
    assert.equal(step.accepted, report.history[k + 1].accepted, `step ${k + 1}`);
  });
  assert.equal(next.value.status.toUpperCase(), report.termination);
  near(next.value.iterations, report.iterations, 1, "steps");
  return { p, steps, summary: next.value, report };
}

test("only columns that depend on each other are damped alike", { skip }, async () => {
  const x = [0.1, 0.4, 0.5, 0.9], y = [1.2, 1.1, 0.7, 0.2];
  const problem = fit("1", {}, x, y);
  problem.parameters = [{ name: "w", width: 4, values: [0.3, 0.2, 1e-3, 2e-3] }];
  problem.residuals[0].parameters = ["w"];
  problem.residuals[0].expressions =
    ["exp(-x * (w[0] + w[1])) + 100 * sin(500 * (w[2] - w[3]) + x) - y", "(w[0] + w[1])^3 - 2 * y"];
  problem.solver = { max_iterations: 12 };
  await compareSteps(problem, {}, 8);
});

test("a gradient that is small beside an unknown is not zero", { skip }, async () => {
  const problem = fit("1e-12 * (a + b * x) / (1 + c * x)", { a: 1, b: 1, c: 1 }, [0.4, 1, 2, 3], [4e-13, 2e-12, 1e-12, 3e-12]);
  const { steps, report } = await compareSteps(problem, {}, 5);
  assert.ok(steps[0].gradient > 0);
  near(steps[0].gradient / report.history[1].gradient_max_norm, 1, 1e-6);
});
