// Solves on WebGPU in Chromium, on its adapter SwiftShader, against those of the command. The slower
// ones run with TOPOGRAD_WEBGPU=1.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { copyFileSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";

import { Site, noBrowser } from "./browser.js";
import { from } from "./module.js";

const { tileOf } = await from("wgsl.js");

const command = process.env.TOPOGRAD;
const source = process.env.TOPOGRAD_SOURCE_DIR ?? join(import.meta.dirname, "../..");
const site = new Site();
let skip = command === undefined ? "TOPOGRAD does not name the command" : noBrowser;
const run = (...args) => execFileSync(command, args, { stdio: "ignore" });

before(async () => {
  if (skip) return;
  await site.open("--enable-unsafe-webgpu", "--use-webgpu-adapter=swiftshader",
                  "--enable-unsafe-swiftshader", "--enable-features=Vulkan");
  writeFileSync(join(site.folder, "empty.html"), "<!doctype html><title>empty</title>");
  await site.browser.open(`${site.origin}empty.html`, "document.title === 'empty'");
  const adapter = await site.browser.evaluate(
    "navigator.gpu?.requestAdapter().then((found) => found?.info.architecture)");
  if (!adapter) skip = "Chromium has no adapter for WebGPU";
});
after(() => site.close());

/** Exports a problem, and evaluates an expression of it, p, in the browser. */
async function within(name, args, expression, options = `{ device: "webgpu" }`) {
  run("export", "web", ...args, "--out", join(site.folder, name));
  return site.browser.evaluate(`(async () => {
    const { load } = await import("/${name}/topograd.js");
    const p = await load("/${name}/", ${options});
    ${expression}
  })()`);
}

function native(args) {
  const report = join(site.folder, "report.json");
  run("solve", ...args, "--backend", "cpu", "--quiet", "--json", report);
  const found = JSON.parse(readFileSync(report, "utf8"));
  return found.runs?.[0] ?? found;
}

function close(got, expected, share, what) {
  assert.ok(Math.abs(got - expected) <= share * Math.abs(expected), `${what}: ${got}, ${expected}`);
}

test("tiles divide the rows of all terms, and the columns of all blocks", () => {
  for (const [numbers, tile] of [[[3], 3], [[6, 9, 3], 3], [[2, 4], 2], [[6, 2], 2], [[1, 3], 1], [[7], 1], [[], 3]])
    assert.equal(tileOf(numbers), tile);
});

const nist = (set) => ["nist", "--data", join(source, "tests/data/nist"), "--set", set];
const tight = ["--tolerance", "1e-13"];
// Steps as exact as those of a factor: float32 on the device is refined until they are.
const exact = { linearTolerance: 1e-12, forcing: "constant" };
const tolerances = { functionTolerance: 1e-13, gradientTolerance: 1e-13, parameterTolerance: 1e-13 };
const problems = [
  { name: "misra1a", args: nist("Misra1a"), other: ["--tolerance", "1e-13"],
    options: { maxIterations: 1000, ...tolerances } },
  { name: "thurber", slow: true, args: nist("Thurber"), other: ["--tolerance", "1e-13"],
    options: { maxIterations: 1000, ...tolerances } },
  { name: "springs", slow: true, args: ["springs", "--width", "6"],
    other: ["--linear", "cholesky", "--max-iterations", "8"], options: { maxIterations: 8, ...exact } },
  { name: "mesh", slow: true, args: ["arap", "--icosphere", "1"], other: ["--linear", "cholesky"], options: exact },
  // As by default, with the tolerance that makes its end one of the minimum and not of the way to it.
  { name: "loose", slow: true, args: ["arap", "--icosphere", "2"],
    other: ["--linear", "pcg", "--preconditioner", "block_jacobi", "--forcing", "eisenstat_walker",
            "--tolerance", "1e-10"], options: { functionTolerance: 1e-10 } },
  { name: "bundle", slow: true, args: ["bundle", "--cameras", "6", "--points", "120", "--observations", "500",
                           "--noise", "0.5"], options: {} },
];

for (const { name, args, slow, other = [], options } of problems) {
  test(`${name} on WebGPU takes the command's steps`, async (t) => {
    const why = slow && process.env.TOPOGRAD_WEBGPU === undefined ? "slow: TOPOGRAD_WEBGPU=1" : skip;
    if (why) return t.skip(why);
    const expected = native([...args, ...other]);
    const { device, summary } = await within(name, args, `
      const summary = await p.minimize(${JSON.stringify(options)});
      return { device: p.device, summary };`);
    assert.match(device, /^WebGPU \(.+\), mixed$/);
    assert.equal(summary.device, device);
    close(summary.finalCost, expected.cost ?? expected.final_cost, 1e-9, "final cost");
    assert.ok(Math.abs(summary.iterations - expected.iterations) <= 1,
              `steps: ${summary.iterations}, ${expected.iterations}`);
    assert.ok(summary.linearIterations > 0);
    if (expected.termination) assert.equal(summary.status.toUpperCase(), expected.termination);
  });
}

test("a drag of a problem whose factor would take long to try stays on the device", async (t) => {
  if (skip || process.env.TOPOGRAD_WEBGPU === undefined) return t.skip(skip || "slow: TOPOGRAD_WEBGPU=1");
  const device = await within("large", ["springs", "--width", "130"], `
    const options = { maxIterations: 1, reuseFactor: true, linearTolerance: 0.5 };
    return (await p.minimize(options)).device;`);
  assert.match(device, /^WebGPU .+, mixed$/);
});

test("a device that is prepared serves the solve that begins meanwhile", async (t) => {
  if (skip) return t.skip(skip);
  const got = await within("prepared", nist("Misra1a"), `
    const prepared = p.prepare(), summary = await p.minimize({ maxIterations: 2 });
    await prepared;
    await p.prepare();
    return { device: summary.device, opened };`, `{ device: "webgpu", gpu: {
      async requestAdapter(options) {
        const adapter = await navigator.gpu.requestAdapter(options);
        const open = adapter.requestDevice.bind(adapter);
        globalThis.opened = 0;
        adapter.requestDevice = (wish) => { ++opened; return open(wish); };
        return adapter;
      } } }`);
  assert.match(got.device, /, mixed$/);
  assert.equal(got.opened, 1);
});

test("a drag runs in JavaScript where that is measured to be faster, and other solves do not", async (t) => {
  if (skip) return t.skip(skip);
  const { devices, reason, last } = await within("drag", ["arap", "--icosphere", "2"], `
    await p.minimize({ maxIterations: 2 });
    const at = p.parameters("positions").slice(300, 303), devices = [];
    for (let k = 0; k < 8; ++k) {
      p.pin("positions", 100, [at[0] + 0.02 * k, at[1], at[2]]);
      const { device } = await p.minimize({ maxIterations: 2, reuseFactor: true, linearTolerance: 0.1 });
      devices.push(device);
    }
    const { reason } = p;
    return { devices, reason, last: (await p.minimize({ maxIterations: 1 })).device };`);
  // A solve on SwiftShader takes hundreds of milliseconds, one with the factor a few.
  for (const k of [0, 1, 2, 4, 5, 6, 7]) assert.equal(devices[k], "JavaScript", devices.join());
  assert.match(reason, /^while a handle is dragged, JavaScript takes .+ ms a step, and WebGPU/);
  assert.match(last, /^WebGPU .+, mixed$/);
});

test("a solve whose device is lost goes on in JavaScript from its last point", async (t) => {
  if (skip) return t.skip(skip);
  const got = await within("lost", nist("Misra1a"), `
    const costs = [];
    let summary;
    const steps = p.solve({ maxIterations: 100 });
    for (;;) {
      const next = await steps.next();
      if (next.done) { summary = next.value; break; }
      costs.push(next.value.cost);
      if (costs.length === 3) made.destroy();
    }
    return { costs, summary, device: p.device, reason: p.reason };`, `{ device: "webgpu", gpu: {
      async requestAdapter(options) {
        const adapter = await navigator.gpu.requestAdapter(options);
        const open = adapter.requestDevice.bind(adapter);
        adapter.requestDevice = async (wish) => globalThis.made = await open(wish);
        return adapter;
      } } }`);
  assert.equal(got.summary.device, "JavaScript");
  assert.equal(got.device, "JavaScript");
  assert.match(got.reason, /^the device is lost/);
  assert.equal(got.summary.status, "convergence");
  close(got.summary.finalCost, 0.12455138894 / 2, 1e-6, "final cost");
  got.costs.forEach((cost, k) => assert.ok(k === 0 || cost <= got.costs[k - 1], got.costs.join()));
});

/** Exports with kernels of single precision, and evaluates an expression of the problem. */
const inSingle = (name, args, expression) =>
  within(`${name}32`, [...args, "--f32"], expression, `{ device: "webgpu", precision: "f32" }`);

/** Files for problems with losses and bounds, and with manifolds. */
const files = {
  "bounded.json": JSON.stringify({
    parameters: [{ name: "b", values: [4, 0.5], width: 2, lower: [0, 0.3], upper: 20 }],
    data: [{ name: "t", values: [0, 1, 2, 3, 4, 5] }, { name: "y", values: [5, 3.9, 3.1, 2.4, 9, 1.5] }],
    residuals: [{ label: "fit", expressions: ["b[0] * exp(-b[1] * t) - y"], parameters: ["b"],
                  data: ["t", "y"], loss: { huber: 0.5 } }],
  }),
  "curve.json": JSON.stringify({
    parameters: [{ name: "b", values: [4, 0.5, 1, 0.1], width: 4, lower: [3.5, 0, -9, -9], upper: 20 }],
    data: [{ name: "t", values: [0, 1, 2, 3, 4, 5] }, { name: "y", values: [5, 3.9, 3.1, 2.4, 9, 1.5] }],
    residuals: [{ label: "fit", expressions: ["b[0] * exp(-b[1] * t) + b[2] + b[3] * t - y"], parameters: ["b"],
                  data: ["t", "y"], loss: { huber: 0.5 } }],
  }),
  // Two terms share their kernels.
  "labels.json": JSON.stringify({
    parameters: [{ name: "a", values: [4] }, { name: "b", values: [0.5] }, { name: "c", values: [8] }],
    data: { t: [0, 1, 2, 3, 4, 5], y: [5, 3.9, 3.1, 2.4, 2, 1.5], z: [9, 7.2, 5.8] },
    residuals: [
      { label: "first", expressions: ["a * exp(-b * t) - y"], parameters: ["a", "b"], data: ["t", "y"] },
      { label: "second", expressions: ["a * exp(-b * t) - y"], parameters: { a: "c", b: "b" },
        data: { t: [0, 1, 2], y: "z" } }],
  }),
  "graph.g2o": `VERTEX_SE3:QUAT 0 0 0 0 0 0 0 1
VERTEX_SE3:QUAT 1 1.1 0.1 0 0 0.05 0 1
VERTEX_SE3:QUAT 2 1 1.2 0 0 0 0.6 0.8
${["0 1 1 0 0 0 0 0 1", "1 2 0 1 0 0 0 0.6 0.8", "0 2 1.3 0.8 0.1 0 0 0.6 0.8"].map((edge) =>
    `EDGE_SE3:QUAT ${edge} 1 0 0 0 0 0 1 0 0 0 0 1 0 0 0 1 0 0 1 0 1`).join("\n")}
`,
};
const file = (name) => {
  const path = join(site.folder, name);
  writeFileSync(path, files[name]);
  return path;
};

/** The library's tolerances; NIST's sets are exported with tighter ones. */
const usual = { functionTolerance: 1e-6, gradientTolerance: 1e-10, parameterTolerance: 1e-8 };
for (const { name, args, slow, share = 1e-6, steps = 1, options = {} } of [
  { name: "misra1a", args: nist("Misra1a"), options: usual },
  // Float32 takes a step less from its start, which is refused twice in float64.
  { name: "thurber", slow: true, args: nist("Thurber"), steps: 2, options: { maxIterations: 1000, ...usual } },
  { name: "misra1a", slow: true, args: nist("Misra1a"), options: { maxIterations: 1000, ...tolerances } },
  { name: "thurber", slow: true, args: nist("Thurber"), options: { maxIterations: 1000, ...tolerances } },
  { name: "springs", slow: true, args: ["springs", "--width", "6"], options: { maxIterations: 5 } },
  { name: "mesh", slow: true, args: ["arap", "--icosphere", "1"] },
  { name: "bundle", slow: true, args: ["bundle", "--cameras", "6", "--points", "120", "--observations", "500",
                                       "--noise", "0.5"] },
  { name: "bounded", args: [file("bounded.json")] },
  { name: "labels", args: [file("labels.json")] },
  { name: "graph", args: ["pose-graph", file("graph.g2o"), "--start", "file"] },
]) {
  test(`${name} in single precision ends where float64 does`, async (t) => {
    const why = slow && process.env.TOPOGRAD_WEBGPU === undefined ? "slow: TOPOGRAD_WEBGPU=1" : skip;
    if (why) return t.skip(why);
    const got = await inSingle(name, args, `
      const first = p.device, steps = [], solve = p.solve(${JSON.stringify(options)});
      let next;
      while (!(next = await solve.next()).done) steps.push(next.value);
      const other = await load("/${name}32/", { device: "javascript" });
      const expected = await other.minimize(${JSON.stringify(options)});
      return { first, steps, summary: next.value, expected, cost: p.cost() };`);
    assert.match(got.first, /^WebGPU \(.+\), f32$/);
    assert.equal(got.summary.status, got.expected.status);
    close(got.summary.finalCost, got.expected.finalCost, share, "final cost");
    // The cost that is told is that of float64.
    close(got.summary.finalCost, got.cost, 1e-12, "cost of the point");
    assert.ok(Math.abs(got.summary.iterations - got.expected.iterations) <= steps,
              `steps: ${got.summary.iterations}, ${got.expected.iterations}`);
    // Single precision comes first, and does not end the solve by itself.
    assert.ok(got.steps.length >= 2);
    const last = got.expected.status === "convergence" ? /, mixed$|^JavaScript$/ : /, f32$/;
    assert.match(got.summary.device, last);
  });
}

/** Makes the system of a problem known to the page. */
const seen = `
import { float32 as original } from "./single.js";
export async function float32(...parts) {
  const made = await original(...parts);
  class Seen extends made.Float32System {
    constructor(model) {
      super(model);
      globalThis.system = this;
    }
  }
  return { ...made, Float32System: Seen };
}
`;

/** Runs the kernels of an export in single precision, one by one; `change` may break a file of it. */
async function kernels(name, args, change = () => {}) {
  const folder = join(site.folder, `kernels-${name}`);
  run("export", "web", ...args, "--f32", "--out", folder);
  renameSync(join(folder, "float32.js"), join(folder, "single.js"));
  writeFileSync(join(folder, "float32.js"), seen);
  copyFileSync(join(import.meta.dirname, "kernels.js"), join(folder, "compare.js"));
  change(folder);
  return site.browser.evaluate(`(async () => {
    const from = (file) => import("/kernels-${name}/" + file);
    const [{ load }, { compareKernels }] = [await from("topograd.js"), await from("compare.js")];
    const p = await load("/kernels-${name}/", { device: "webgpu", precision: "f32" });
    await p.minimize({ maxIterations: 1 });
    const start = p.arrays.flatMap((array) => [...p.parameters(array)]);
    return compareKernels(system, start, await from("linear.js"), await from("gpu.js"));
  })()`);
}

/** Kernels that were not compared, or differ by more than rounding. */
const wrongOf = (found) => Object.entries(found).filter(([, { count, worst }]) => !(count > 0 && worst <= 1))
  .map(([kernel, seen]) => `${kernel}: ${JSON.stringify(seen)}`);

const inKernels = [
  { name: "springs", slow: true, args: ["springs", "--width", "4"], more: [] },
  { name: "mesh", slow: true, args: ["arap", "--icosphere", "1"], more: [] },
  { name: "bundle", slow: true, more: [],
    args: ["bundle", "--cameras", "4", "--points", "30", "--observations", "90", "--noise", "0.5"] },
  { name: "graph", args: ["pose-graph", file("graph.g2o"), "--start", "file"], more: ["plus0", "basis0"] },
  { name: "curve", args: [file("curve.json")], more: ["cost0"] },
];
for (const { name, args, slow, more } of inKernels) {
  test(`each kernel of ${name} in single precision computes what float64 does`, async (t) => {
    const why = slow && process.env.TOPOGRAD_WEBGPU === undefined ? "slow: TOPOGRAD_WEBGPU=1" : skip;
    if (why) return t.skip(why);
    const found = await kernels(name, args);
    for (const kernel of ["rows0", "gradient", "blocks", "columns", ...more]) assert.ok(found[kernel], kernel);
    assert.deepEqual(wrongOf(found), []);
  });
}

test("a kernel that is wrong is found by its numbers", async (t) => {
  if (skip) return t.skip(skip);
  const change = (folder) => {
    const path = join(folder, "steps.wgsl"), code = readFileSync(path, "utf8");
    const wrong = code.replace("jac[GRADIENT + c] = g;", "jac[GRADIENT + c] = 1.00001 * g;");
    assert.notEqual(wrong, code);
    writeFileSync(path, wrong);
  };
  const found = await kernels("wrong", ["springs", "--width", "3"], change);
  assert.deepEqual(wrongOf(found).map((text) => text.split(":")[0]), ["gradient"]);
});

test("a page computes in the precision that its address names", async (t) => {
  if (skip) return t.skip(skip);
  const { browser } = site, args = [...nist("Misra1a"), "--page"];
  run("export", "web", ...args, "--f32", "--out", join(site.folder, "page32"));
  run("export", "web", ...args, "--out", join(site.folder, "page"));
  const lacking = "(problem.bin: no kernels of the precision f32: export the problem with --f32)";
  for (const [address, said, ended] of [
    ["page32/?device=webgpu&precision=f32", "f32: float32, and float64 confirms the end;", ", the last in mixed: "],
    ["page32/?device=webgpu", "mixed: float32, refined in float64;", " s: "],
    ["page/?device=webgpu&precision=f32", `mixed: float32, refined in float64 ${lacking};`, " s: "],
  ]) {
    await browser.open(site.origin + address);
    const text = await browser.evaluate("document.getElementById('how').textContent");
    assert.match(text, /^Solved on this page, by WebGPU \(.*swiftshader.*\), /i);
    assert.ok(text.includes(`), ${said} nothing`), text);
    await browser.evaluate("document.getElementById('solve').click()");
    await browser.until("page.status");
    assert.equal(await browser.evaluate("page.status"), "convergence");
    close(await browser.evaluate("page.cost"), 0.12455138894 / 2, 1e-6, "final cost");
    const state = await browser.evaluate("document.getElementById('state').value");
    assert.ok(state.includes(ended), state);
    assert.deepEqual(browser.errors, []);
  }
});
