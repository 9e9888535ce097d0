// Problems that the command exports, against the solutions that it finds itself.
import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import { copyFileSync, readFileSync, readdirSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, test } from "node:test";
import { pathToFileURL } from "node:url";
import { gzipSync } from "node:zlib";

import { folder, load, native, removeFolder, run, skip, source, write } from "./command.js";

after(removeFolder);

function close(got, expected, share, what) {
  assert.ok(Math.abs(got - expected) <= share * Math.abs(expected), `${what}: ${got}, ${expected}`);
}

/** Solves both ways, and compares each step's cost and the end. */
async function compare(args, options = {}, nativeOptions = []) {
  const report = native([...args, ...nativeOptions]);
  const { p } = await load(args);
  const steps = [], solve = p.solve({ maxIterations: 100, ...options });
  let next;
  while (!(next = await solve.next()).done) steps.push(next.value);
  const summary = next.value;
  close(summary.initialCost, report.initial_cost, 1e-12, "initial cost");
  close(summary.finalCost, report.final_cost, 1e-9, "final cost");
  assert.ok(Math.abs(summary.iterations - report.iterations) <= 1,
            `steps: ${summary.iterations}, ${report.iterations}`);
  assert.equal(summary.status.toUpperCase(), report.termination);
  return { p, steps, summary, report };
}

/** A turn and a half of a spiral, seen twice, as g2o's poses and edges. */
function spiral() {
  const count = 40, poses = [];
  for (let k = 0; k < count; ++k) {
    const angle = 3 * Math.PI * k / count;
    poses.push({ at: [10 * Math.cos(angle), 10 * Math.sin(angle), k / 8], half: angle / 2 });
  }
  const turn = ({ half }) => [0, 0, Math.sin(half), Math.cos(half)];
  const lines = poses.map((pose, k) =>
    `VERTEX_SE3:QUAT ${k} ${pose.at.map((v, c) => v + 0.1 * Math.sin(7 * k + c)).join(" ")} ` +
      turn(pose).join(" "));
  const information = [];
  for (let r = 0; r < 6; ++r) for (let c = r; c < 6; ++c) information.push(r === c ? 100 : 0);
  const edge = (a, b) => {
    const from = poses[a], to = poses[b], c = Math.cos(2 * from.half), s = Math.sin(2 * from.half);
    const d = to.at.map((v, k) => v - from.at[k]), noise = 0.02 * Math.cos(3 * a + 5 * b);
    const moved = [c * d[0] + s * d[1] + noise, c * d[1] - s * d[0] - noise, d[2] + noise];
    lines.push(`EDGE_SE3:QUAT ${a} ${b} ${moved.join(" ")} ` +
               `${turn({ half: to.half - from.half + noise / 4 }).join(" ")} ${information.join(" ")}`);
  };
  for (let k = 1; k < count; ++k) edge(k - 1, k);
  for (let k = 0; k + 27 < count; k += 2) edge(k, k + 27);
  const path = join(folder, "spiral.g2o");
  writeFileSync(path, lines.join("\n") + "\n");
  return path;
}

const tolerance = 1e-13;
const tight = { functionTolerance: tolerance, gradientTolerance: tolerance,
                parameterTolerance: tolerance };

/** Curves with 25 points and noise, in units and from starts that make a fit hard. */
const hard = [
  { name: "logistic curve from a plateau", expression: "p0 / (1 + exp(-p1 * (x - p2)))",
    curve: (x) => 3 / (1 + Math.exp(-2 * (x - 2))), start: [1, 1, 1], unit: 1e-12 },
  { name: "exponential far out", expression: "p0 * exp(p1 * x) + p2",
    curve: (x) => 2 * Math.exp(-700 * x) + 0.5, start: [1, 1, 1], unit: 1e6, stretch: 1e-3 },
  { name: "parabola in small units", expression: "p0 + p1 * x + p2 * x^2",
    curve: (x) => 1 - 2e-3 * x + 5e-7 * x * x, start: [20, -3, 0.02], unit: 1e-12, stretch: 1e3 },
  { name: "saturation from afar", expression: "p0 * x / (p1 + x)",
    curve: (x) => 3 * x / (1.2 + x), start: [9, 30], unit: 1e-12 },
  { name: "peak", expression: "p0 / (1 + ((x - p1) / p2)^2)",
    curve: (x) => 2 / (1 + ((x - 2) / 0.5) ** 2), start: [7, 5, 2], unit: 1e-12 },
];
for (const { name, expression, curve, start, unit, stretch = 1 } of hard) {
  test(`ends where the command does: ${name}`, { skip }, async () => {
    const x = Array.from({ length: 25 }, (_, k) => stretch * (0.2 + 0.16 * k));
    const y = x.map((v, k) => unit * (curve(v) + 0.05 * Math.sin(12.9 * k * k)));
    const names = start.map((_, k) => `p${k}`), path = join(folder, "hard.json");
    writeFileSync(path, JSON.stringify({
      parameters: start.map((value, k) => ({ name: names[k], values: [value] })),
      data: { x, y },
      residuals: [{ expressions: [`${expression} - y`], parameters: names, data: ["x", "y"] }],
    }));
    const report = native([path]), { p } = await load([path]);
    const summary = await p.minimize();
    close(summary.finalCost, report.final_cost, 1e-6, "final cost");
    assert.equal(summary.status.toUpperCase(), report.termination);
  });
}

test("numbers whose squares underflow are an error, as for the command", { skip }, async () => {
  const path = join(folder, "tiny.json");
  writeFileSync(path, JSON.stringify({
    parameters: [{ name: "a", values: [1e-160] }],
    residuals: [{ expressions: ["a * 1e160 - 3"], parameters: ["a"] }],
  }));
  assert.throws(() => native([path]));
  const { p } = await load([path]);
  await assert.rejects(p.minimize(), { code: "nonfinite", message: /overflow: scale/ });
});

test("the package has the command's version", { skip }, () => {
  const { version } = JSON.parse(readFileSync(join(import.meta.dirname, "../package.json"), "utf8"));
  assert.equal(run("--version").trim(), `topograd ${version}`);
});

const noNpm = spawnSync("npm", ["--version"]).status !== 0 ? "no npm" : false;
test("npm packs all of an exported folder, whose test passes, also unpacked", { skip: skip || noNpm }, () => {
  const cwd = join(folder, "packed");
  run("export", "web", "springs", "--width", "3", "--f32", "--page", "--out", cwd);
  const env = { ...process.env, NODE_TEST_CONTEXT: undefined, TOPOGRAD_WEB: undefined };
  const call = (program, args, where = cwd) => execFileSync(program, args, {
    cwd: where, encoding: "utf8", env, stdio: ["ignore", "pipe", "ignore"] });
  const written = readdirSync(cwd, { recursive: true }).filter((name) => statSync(join(cwd, name)).isFile());
  assert.match(call("npm", ["test"]), /^# pass 1$/m);
  const [{ files, filename }] = JSON.parse(call("npm", ["pack", "--json", "--offline"]));
  assert.deepEqual(files.map(({ path }) => path).sort(), written.sort());
  call("tar", ["-xzf", filename]);
  assert.match(call("npm", ["test"], join(cwd, "package")), /^# pass 1$/m);
});

test("springs take the command's steps", { skip }, async () => {
  const { steps, report } = await compare(["springs", "--width", "10"], { maxIterations: 30 },
                                          ["--max-iterations", "30", "--linear", "cholesky"]);
  steps.forEach((step, k) => {
    close(step.cost, report.history[k + 1].cost, 1e-9, `cost of step ${k + 1}`);
    assert.equal(step.accepted, report.history[k + 1].accepted);
  });
});

for (const set of ["Misra1a", "Thurber"]) {
  test(`NIST's ${set}`, { skip }, async () => {
    const args = ["nist", "--data", join(source, "tests/data/nist"), "--set", set];
    const [first] = native([...args, "--tolerance", String(tolerance)]).runs;
    const { p } = await load(args);
    const summary = await p.minimize({ maxIterations: 1000, ...tight });
    assert.equal(summary.status, "convergence");
    close(summary.finalCost, first.cost, 1e-9, "final cost");
    assert.ok(Math.abs(summary.iterations - first.iterations) <= 1,
              `steps: ${summary.iterations}, ${first.iterations}`);
    p.parameters(p.arrays[0]).forEach((b, k) => close(b, first.parameters[k], 1e-7, `b${k + 1}`));
  });
}

test("NIST's sets are exported with the tolerances that the command has for them", { skip }, async () => {
  const { p } = await load(["nist", "--data", join(source, "tests/data/nist"), "--set", "Thurber"]);
  const summary = await p.minimize();
  assert.equal(summary.status, "convergence");
  close(2 * summary.finalCost, 5.6427082397e3, 1e-10, "certified sum of squares");
});

test("a problem file", { skip }, async () => {
  await compare([join(source, "samples/data/curve_fit.json")]);
});

test("conjugate gradients that are asked for are as exact on a mesh as the command's", { skip }, async () => {
  const { summary, report } = await compare(["arap", "--icosphere", "2"], { linearSolver: "cg", functionTolerance: 1e-9 },
    ["--linear", "pcg", "--preconditioner", "block_jacobi", "--tolerance", "1e-9"]);
  close(summary.linearIterations, report.linear_iterations, 0.02, "iterations");
});

test("meshes", { skip }, async () => {
  await compare(["arap", "--icosphere", "2"], {}, ["--linear", "cholesky"]);
  await compare(["smooth", "--icosphere", "2"], {}, ["--linear", "cholesky"]);
});

/** Compares the first steps with the command's, which has these options beside. */
async function compareSteps(count, args, nativeOptions, options = {}) {
  const { history } = native([...args, ...nativeOptions, "--max-iterations", String(count)]);
  const { p } = await load(args);
  assert.equal(p.device, "JavaScript");
  let at = 0;
  close(p.cost(), history[0].cost, 1e-12, "initial cost");
  for await (const step of p.solve({ ...options, maxIterations: count })) {
    close(step.cost, history[++at].cost, 1e-9, `cost of step ${at}`);
    assert.equal(step.accepted, history[at].accepted);
  }
  assert.equal(at, count);
  return p;
}

test("energies by newton take the command's steps", { skip }, async () => {
  for (const args of [
    ["cloth", "--width", "8"],
    ["multi", "--icosphere", "1", "--perturb", "0.05"],
  ]) {
    const { steps, report } = await compare([...args, "--method", "newton"], {}, ["--linear", "cholesky"]);
    assert.equal(steps.length, report.iterations);
    steps.forEach((step, k) => close(step.cost, report.history[k + 1].cost, 1e-9, `cost of step ${k + 1}`));
  }
  // Steps at which terms change sides enlarge rounding, but end at the same minimum.
  const { steps, report } =
    await compare(["developable", "--icosphere", "1", "--edges", "--perturb", "0.05", "--method", "newton"],
                  {}, ["--linear", "cholesky"]);
  steps.slice(0, 10).forEach((step, k) =>
    close(step.cost, report.history[k + 1].cost, 1e-9, `cost of step ${k + 1}`));
});

test("energies by lbfgs and by conjugate gradients take the command's first steps", { skip }, async () => {
  const p = await compareSteps(25, ["cloth", "--width", "6"], []);  // lbfgs unless it is told otherwise
  await assert.rejects(p.minimize({ method: "gauss_newton" }), { code: "argument" });
  await compareSteps(10, ["cloth", "--width", "8", "--method", "newton"], ["--linear", "pcg"],
                     { linearSolver: "cg" });
  const hinge = ["developable", "--icosphere", "2", "--energy", "hinge", "--perturb", "0.05"];
  await compareSteps(6, [...hinge, "--method", "newton"], ["--linear", "cholesky"]);
  await compareSteps(10, ["developable", "--icosphere", "2", "--perturb", "0.05"], []);
});

test("a dragged vertex of a cloth is followed, and the cloth falls back", { skip }, async () => {
  const { p } = await load(["cloth", "--width", "8", "--method", "newton"]);
  const rest = await p.minimize();
  const [x, y, z] = p.parameters("positions").subarray(60, 63);
  for (let k = 1; k <= 5; ++k) {
    p.pin("positions", 20, [x, y + k / 50, z]);
    await p.minimize({ maxIterations: 2, reuseFactor: true, linearTolerance: 0.1 });
  }
  const held = await p.minimize();
  assert.deepEqual([...p.parameters("positions").subarray(60, 63)], [x, y + 0.1, z]);
  assert.equal(held.status, "convergence");
  assert.ok(held.finalCost > rest.finalCost + 1e-3, `${held.finalCost}, ${rest.finalCost}`);
  p.release("positions", 20);
  const released = await p.minimize();
  assert.ok(released.finalCost < held.finalCost, `${released.finalCost}, ${held.finalCost}`);
  // A heavier cloth sinks deeper.
  p.set("weight", p.data("weight").map((value) => 3 * value));
  const heavier = p.cost();
  assert.ok(heavier > 2 * released.finalCost, `${heavier}`);
  assert.ok((await p.minimize()).finalCost < heavier - 0.01);
});

test("the deformation of spot, and the size of its folder", { skip }, async () => {
  const args = ["arap", "--mesh", join(source, "samples/data/spot.obj")];
  const { p, summary } = await compare(args, { maxIterations: 4 },
                                       ["--linear", "cholesky", "--max-iterations", "4"]);
  assert.equal(summary.linearSolver, "factor");
  assert.ok(p.faces.length > 3 * 5000);
  const { out } = await load([...args, "--page", "--f32"]);
  let packed = 0;
  for (const name of readdirSync(out)) {
    if (statSync(join(out, name)).isFile()) packed += gzipSync(readFileSync(join(out, name))).length;
  }
  assert.ok(packed <= 365e3, `${packed} bytes`);
});

test("short solves with an earlier factor follow a dragged vertex", { skip }, async () => {
  const whole = (await load(["arap", "--icosphere", "2"])).p;
  const fast = (await load(["arap", "--icosphere", "2"])).p;
  for (const p of [whole, fast]) await p.minimize({ maxIterations: 100 });
  const [x, y, z] = whole.parameters("positions").subarray(60, 63);
  const drag = { maxIterations: 3, reuseFactor: true, linearTolerance: 0.1 };
  let iterations = 0;
  for (let k = 1; k <= 8; ++k) {
    fast.pin("positions", 20, [x + k / 40, y, z - k / 40]);
    iterations += (await fast.minimize(drag)).linearIterations;
  }
  assert.ok(iterations > 0);
  assert.deepEqual([...fast.parameters("positions").subarray(60, 63)], [x + 0.2, y, z - 0.2]);
  whole.pin("positions", 20, [x + 0.2, y, z - 0.2]);
  await whole.minimize({ maxIterations: 100 });
  close(fast.cost(), whole.cost(), 0.05, "cost after the drag");
  const end = await fast.minimize({ maxIterations: 100, reuseFactor: true });
  assert.equal(end.status, "convergence");
  close(end.finalCost, whole.cost(), 1e-4, "cost in the end");
});

test("the manual's sample", { skip }, () => {
  run("export", "web", "arap", "--icosphere", "2", "--out", join(folder, "spot"));
  const sample = join(folder, "solve_spot.mjs");
  copyFileSync(join(source, "samples/solve_spot.mjs"), sample);
  const lines = execFileSync(process.execPath, [sample], { encoding: "utf8" }).trim().split("\n");
  assert.equal(lines.length, 6);
  const [first, last] = [lines[0], lines[4]].map((line) => Number(line.split(" ")[1]));
  assert.ok(last < first);
  assert.ok(Number(lines[5].split(" ").at(-1)) > 0);
});

test("pose graphs", { skip }, async () => {
  const path = spiral();
  await compare(["pose-graph", path]);
  await compare(["pose-graph", path, "--objective", "geodesic", "--start", "file",
                 "--loss", "huber:1"]);
});

test("bundle adjustment", { skip }, async () => {
  await compare(["bundle", "--cameras", "6", "--points", "120", "--observations", "500",
                 "--noise", "0.5"]);
});

test("large problems that are not in the source tree", { skip }, async (t) => {
  const bal = process.env.TOPOGRAD_BAL, graphs = process.env.TOPOGRAD_POSE_GRAPHS;
  if (bal === undefined && graphs === undefined)
    return t.skip("TOPOGRAD_BAL and TOPOGRAD_POSE_GRAPHS name no files");
  if (bal !== undefined) await compare(["bal", bal]);
  if (graphs !== undefined) await compare(["pose-graph", join(graphs, "sphere2500.g2o")]);
});

test("limits of the command are the defaults of solves", async (t) => {
  if (skip) return t.skip(skip);
  const { p } = await load(["springs", "--width", "5", "--max-iterations", "3"]);
  const summary = await p.minimize();
  assert.equal(summary.iterations, 3);
  assert.equal(summary.status, "no_convergence");
  assert.throws(() => run("export", "web", "springs", "--width", "5", "--option", "components=separate",
                          "--out", join(folder, "refused")));
});

/** Two decays with a common rate. */
const decays = (second) => ({
  parameters: [{ name: "a", values: [1] }, { name: "b", values: [0.1] }, { name: "c", values: [2] }],
  data: { x: [0, 1, 2, 3], y: [2, 1.2, 0.75, 0.42], z: [4, 2.4, 1.4] },
  residuals: [
    { label: "first", expressions: ["a * exp(-b * x) - y"], parameters: ["a", "b"], data: ["x", "y"] },
    { label: second, expressions: ["a * exp(-b * x) - y"], parameters: { a: "c", b: "b" }, data: { x: [0, 1, 2], y: "z" } }],
});

test("labels name their own residuals, also those that share a formula", { skip }, async () => {
  const path = write(decays("second")), { p } = await load([path]);
  assert.deepEqual(p.labels, ["first", "second"]);
  assert.deepEqual([...p.data("first")], [0, 2, 1, 1.2, 2, 0.75, 3, 0.42]);
  assert.deepEqual([...p.data("second")], [0, 4, 1, 2.4, 2, 1.4]);
  assert.deepEqual([...p.residuals("second")].map((r) => r.toFixed(6)), ["-2.000000", "-0.590325", "0.237462"]);
  const summary = await p.minimize();
  close(summary.finalCost, native([path]).final_cost, 1e-9, "cost");
  p.set("second", [0, 8, 1, 4.8]);  // each is a curve
  assert.equal((await p.minimize()).status, "convergence");
  assert.ok(Math.abs(p.parameters("c")[0] - 8) < 0.2);
  // Names are unique.
  assert.deepEqual((await load([write(decays("a"))])).p.labels, ["first", "a 2"]);
});

test("a flipped bit of a file is found", { skip }, async () => {
  const { out } = await load([write(decays("second"))]), path = join(out, "problem.bin"), bytes = readFileSync(path);
  const { load: again } = await import(pathToFileURL(join(out, "topograd.js")).href);
  const address = pathToFileURL(out + "/"), header = bytes.readUInt32LE(12);
  for (const at of [7, 40, 60, 16 + header, bytes.length - 1]) {
    const changed = Buffer.from(bytes);
    changed[at] ^= 1;
    writeFileSync(path, changed);
    await assert.rejects(again(address), { name: "TopogradError", code: "file", message: /the file is damaged \(expected/ });
  }
  writeFileSync(path, bytes);
  assert.deepEqual((await again(address)).labels, ["first", "second"]);
});
