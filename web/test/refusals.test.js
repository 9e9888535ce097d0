// Arguments and adapters that do not do, and what npm packs.
import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";

import { load, writePackage } from "./module.js";
import { chain, code, misra, removeFolders, write } from "./problems.js";

after(removeFolders);

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
  for (const [options, part] of [
    [{ linearTolerance: 1 }, /linearTolerance: expected a number in \(0, 1\), got 1/],
    [{ linearTolerance: 0 }, /in \(0, 1\), got 0/],
    [{ maxLinearIterations: 0 }, /maxLinearIterations: expected a whole number >= 1, got 0/],
    [{ maxLbfgsRank: 0 }, />= 1, got 0/],
    [{ minRelativeDecrease: 1 }, /minRelativeDecrease: expected a number in \[0, 1\), got 1/],
    [{ timeLimitSeconds: 0 }, /timeLimitSeconds: expected a finite number > 0, got 0/],
    [{ functionTolerance: Infinity }, /expected a finite number >= 0, got Infinity/],
    [{ initialTrustRegionRadius: 0 }, /expected a finite number > 0, got 0/],
    [{ minTrustRegionRadius: 0 }, /expected a finite number > 0, got 0/],
    [{ minTrustRegionRadius: 10, maxTrustRegionRadius: 1 },
     /maxTrustRegionRadius: expected a number >= minTrustRegionRadius \(10\), got 1/],
    [{ minLmDiagonal: 2, maxLmDiagonal: 1 }, /maxLmDiagonal: expected a number >= minLmDiagonal \(2\), got 1/],
    [{ maxIterations: "5" }, /got 5/],
    [{ toString: 1 }, /got "toString"/],
    [{ signal: new AbortController() }, /signal: expected an AbortSignal, got \[object AbortController\]/],
    [{ signal: true }, /expected an AbortSignal, got true/],
    [{ reuseFactor: 1 }, /reuseFactor: expected true or false, got 1/],
    [null, /options: expected an object, got null/],
    [5, /options: expected an object, got 5/],
  ]) await assert.rejects(p.minimize(options), code("argument", part));
  const first = p.solve();
  await first.next();
  await assert.rejects(p.minimize(), code("busy", /being solved/));
  await first.return();
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
  await assert.rejects(load(address, { devise: "webgpu" }), code("argument", /device, precision, gpu, got "devise"/));
  await assert.rejects(load(address, null), code("argument", /expected an object, got null/));
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
  const cwd = mkdtempSync(join(tmpdir(), "topograd-"));
  writePackage(cwd);
  const npm = (...args) => execFileSync("npm", args, {
    cwd, encoding: "utf8", stdio: ["ignore", "pipe", "ignore"],
    env: { ...process.env, NODE_TEST_CONTEXT: undefined, TOPOGRAD_WEB: undefined } });
  const [packed] = JSON.parse(npm("pack", "--dry-run", "--json", "--offline", "--ignore-scripts"));
  const names = packed.files.map(({ path }) => path);
  for (const name of ["topograd.js", "gpu.js", "wgsl.js", "topograd.d.ts"])
    assert.ok(names.includes(`dist/${name}`), name);
  for (const name of ["README.md", "package.json"]) assert.ok(names.includes(name), name);
  assert.equal(names.filter((name) => name.endsWith(".d.ts")).length, 1);
  assert.match(npm("test"), /^# pass 1$/m);
  rmSync(cwd, { recursive: true });
  assert.ok(packed.size <= 60e3, `${packed.size} bytes`);
});
