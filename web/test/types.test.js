// topograd.d.ts against the module, and the types of both. What needs TypeScript's compiler is skipped without it.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { readFileSync, readdirSync } from "node:fs";
import { after, test } from "node:test";
import { fileURLToPath } from "node:url";

import * as module from "../topograd.js";
import { misra, removeFolders, write } from "./problems.js";

after(removeFolders);

const folder = new URL("..", import.meta.url), text = (name) => readFileSync(new URL(name, folder), "utf8");
const declared = text("topograd.d.ts").replace(/\/\*\*[^]*?\*\//g, "");
const namesIn = (source, pattern) => [...source.matchAll(pattern)].map((match) => match[1]).sort();
/** The members of a class or an interface. */
const membersOf = (name) => {
  const body = declared.match(new RegExp(`(?:class|interface) ${name}\\b[^{]*{\n([^]*?)\n}`))[1];
  return namesIn(body, /^ {2}(?:readonly )?(\w+)\??[(:]/gm);
};
const sorted = (names) => [...new Set(names)].sort();

test("exported names are declared", () => {
  assert.deepEqual(namesIn(declared, /^export declare (?:class|function) (\w+)/gm), Object.keys(module).sort());
});

test("a problem's members are declared, with their parameters", async () => {
  const p = await module.load(write(...misra([500, 0.0001])));
  const methods = Object.getOwnPropertyNames(module.Problem.prototype).filter((name) => name !== "constructor");
  assert.deepEqual(membersOf("Problem"), sorted([...methods, ...Object.keys(p)]));
  const count = (list) => list.split(",").filter((part) => part.trim() !== "").length;
  for (const name of methods) {
    const own = module.Problem.prototype[name].toString().match(/\(([^)]*)\)/)[1];
    const other = declared.match(new RegExp(`^ {2}${name}\\(([^)]*)\\)`, "m"))[1];
    assert.equal(count(own), count(other), `parameters of ${name}()`);
  }
});

test("options of a load and of a solve are declared", async () => {
  const p = await module.load(write(...misra([500, 0.0001])));
  const { message } = await p.minimize({ none: 1 }).catch((error) => error);
  const known = message.match(/one of the options (.*), got "none"/)[1].split(", ");
  assert.deepEqual(membersOf("SolveOptions"), known.sort());
  const loads = module.load.toString().match(/const {([^}]*)} = options/)[1];
  assert.deepEqual(membersOf("LoadOptions"), loads.split(",").map((part) => part.trim().split(" ")[0]).sort());
});

test("steps, summaries and codes of errors are declared", async () => {
  const energy = { name: "energy", rows: 1, instances: 1, parameters: 1, data: 0, cost: "cost", gradient: "gradient",
                   index: Uint32Array.of(0), numbers: new Float64Array(0) };
  const scalar = [{ name: "cosh", scalars: 1, arrays: [{ name: "x", offset: 0, width: 1, blocks: 1 }], terms: [energy],
                    x: Float64Array.of(1), options: { method: "lbfgs" } }, `
export function cost(p, d, u, out) { out[0] = Math.cosh(p[0]); }
export function gradient(p, d, u, out) { out.set([Math.sinh(p[0]), Math.cosh(p[0])]); }`];
  for (const problem of [misra([500, 0.0001]), scalar]) {
    const solve = (await module.load(write(...problem))).solve();
    let next = await solve.next();
    assert.deepEqual(Object.keys(next.value).sort(), membersOf("Step"));
    while (!next.done) next = await solve.next();
    assert.deepEqual(Object.keys(next.value).sort(), membersOf("Summary"));
  }
  const sources = readdirSync(folder).filter((name) => name.endsWith(".js")).map(text).join("\n");
  const codes = declared.match(/readonly code: ([^;]*);/)[1];
  assert.deepEqual(namesIn(codes, /"(\w+)"/g), sorted(namesIn(sources, /(?:fail|new DeviceError)\("(\w+)"/g)));
});

const noCompiler = spawnSync("tsc", ["--version"]).status !== 0 ? "no tsc (the package node-typescript)" : false;
const compile = (...args) => {
  const { status, stdout } = spawnSync("tsc", args, { cwd: fileURLToPath(new URL("test/types", folder)), encoding: "utf8" });
  assert.equal(status, 0, stdout);
};

test("the modules' types agree", { skip: noCompiler }, () => compile("--project", "."));

test("a program in TypeScript compiles with the declarations", { skip: noCompiler }, () =>
  compile("--noEmit", "--strict", "--target", "es2022", "--module", "es2022", "--moduleResolution", "node",
          "--lib", "es2022,dom", "consumer.ts"));
