// Problems that tests write by hand, as files of an export.
import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

import { TopogradError } from "../topograd.js";

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
