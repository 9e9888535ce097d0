// The module as it is packed, on Rosenbrock's function, in a folder that is written here.
import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { pathToFileURL } from "node:url";

const { load } = await import(
  process.env.TOPOGRAD_WEB === undefined ? "@topograd/web" : join(process.env.TOPOGRAD_WEB, "topograd.js"));

const kernels = `
export function rows(p, d, u, out) { out.set([10 * (p[1] - p[0] ** 2), 1 - p[0], -20 * p[0], 10, -1, 0]); }
export function cost(p, d, u, out) { out[0] = (100 * (p[1] - p[0] ** 2) ** 2 + (1 - p[0]) ** 2) / 2; }`;

test("Rosenbrock's minimum is found", async () => {
  const none = { at: 0, length: 0 }, header = JSON.stringify({
    name: "Rosenbrock", scalars: 2, arrays: [{ name: "x", offset: 0, width: 2, blocks: 1 }],
    terms: [{ name: "rows", rows: 2, instances: 1, parameters: 2, data: 0, uniforms: 0, cost: "cost", jacobian: "rows",
              columns: [[0, 0], [0, 1]], index: { at: 16, length: 1 }, numbers: none }],
    manifolds: [], x: { at: 0, length: 2 }, uniforms: none, options: {},
  }).padEnd(800);
  const folder = mkdtempSync(join(tmpdir(), "topograd-"));
  try {
    writeFileSync(join(folder, "kernels.js"), kernels);
    writeFileSync(join(folder, "problem.bin"), Buffer.concat([
      Buffer.from("TGWEB\n\0\0"), Buffer.from(Uint32Array.of(2, 800).buffer), Buffer.from(header),
      Buffer.from(Float64Array.of(-1.2, 1, 0).buffer)]));
    const p = await load(pathToFileURL(folder + "/")), summary = await p.minimize();
    assert.equal(summary.status, "convergence");
    for (const value of p.parameters("x")) assert.ok(Math.abs(value - 1) < 1e-8);
  } finally {
    rmSync(folder, { recursive: true });
  }
});
