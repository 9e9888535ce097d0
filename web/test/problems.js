// Problems that tests write by hand, as files of an export.
import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

import { TopogradError } from "./module.js";

const folders = [];
/** Removes what write() has written. */
export function removeFolders() {
  folders.forEach((folder) => rmSync(folder, { recursive: true }));
}

/** Writes a folder as `topograd export web` does, and returns its address. */
export function write(header, kernels, change = (bytes) => bytes) {
  const parts = [];
  let size = 0;
  const place = (numbers) => {
    while (size % 8 !== 0) {
      parts.push(Buffer.alloc(1));
      ++size;
    }
    const at = size;
    parts.push(Buffer.from(numbers.buffer));
    size += numbers.byteLength;
    return { at, length: numbers.length };
  };
  const terms = header.terms.map((term) => ({ uniforms: 0, ...term }));
  const whole = { version: 2, topograd: "0.1.0", manifolds: [], uniforms: new Float64Array(0), options: {},
                  ...header, terms };
  const placed = JSON.stringify(whole, (_, value) =>
    value instanceof Float64Array || value instanceof Uint32Array ? place(value) : value);
  const text = Buffer.from(placed.padEnd(Math.ceil(placed.length / 8) * 8));
  const start = Buffer.alloc(16);
  start.write("TGWEB\n");
  start.writeUInt32LE(2, 8);
  start.writeUInt32LE(text.length, 12);
  const folder = mkdtempSync(join(tmpdir(), "topograd-"));
  folders.push(folder);
  writeFileSync(join(folder, "problem.bin"), change(Buffer.concat([start, text, ...parts])));
  writeFileSync(join(folder, "kernels.js"), kernels);
  return pathToFileURL(folder + "/");
}

/** Rows of indices as the columns of differences that the file has. */
export function indices(...rows) {
  return Uint32Array.from(rows[0].flatMap((_, c) =>
    rows.map((row, i) => row[c] - (i > 0 ? rows[i - 1][c] : 0))));
}

export const near = (got, expected, distance, what = "number") =>
  assert.ok(Math.abs(got - expected) <= distance, `${what}: ${got}, expected ${expected}`);

/** Checks an error for assert.throws() and assert.rejects(). */
export const code = (expected, part) => (error) => {
  assert.ok(error instanceof TopogradError, String(error));
  assert.equal(error.code, expected);
  assert.match(error.message, part);
  return true;
};

export const misraX = [77.6, 114.9, 141.1, 190.8, 239.9, 289.0, 332.8, 378.4, 434.8, 477.3, 536.8, 593.1,
                689.1, 760.0];
export const misraY = [10.07, 14.73, 17.94, 23.93, 29.61, 35.18, 40.02, 44.82, 50.76, 55.05, 61.01, 66.40,
                75.47, 81.78];

/** NIST's Misra1a: y = b1 (1 - exp(-b2 x)). */
export function misra(start, more = {}) {
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
export const certified = { b1: 2.3894212918e2, b2: 5.5015643181e-4, cost: 1.2455138894e-1 / 2 };

/** A chain of points; neighbours are one apart, and the ends are held by springs. */
export function chain(points) {
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
