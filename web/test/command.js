// Exports and solves of the command, for tests that compare with it. The variable TOPOGRAD names the
// command, TOPOGRAD_SOURCE_DIR the folder with samples/data and tests/data.
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const command = process.env.TOPOGRAD;
export const source = process.env.TOPOGRAD_SOURCE_DIR ?? join(import.meta.dirname, "../..");
export const skip = command === undefined ? "TOPOGRAD does not name the command" : false;
export const folder = mkdtempSync(join(tmpdir(), "topograd-"));
export const removeFolder = () => rmSync(folder, { recursive: true });

export function run(...args) {
  return execFileSync(command, args, { encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] });
}

let files = 0;
/** Writes a problem file, and returns its path. */
export function write(problem) {
  const path = join(folder, `problem${++files}.json`);
  writeFileSync(path, JSON.stringify(problem));
  return path;
}

/** Exports a problem, and returns it as loaded by the module beside it. */
export async function load(args) {
  const out = join(folder, `problem${++files}`);
  run("export", "web", ...args, "--out", out);
  const address = pathToFileURL(out + "/");
  const module = await import(new URL("topograd.js", address).href);
  return { p: await module.load(address), out };
}

/** The report of a solve by the command. */
export function native(args) {
  const report = join(folder, "report.json");
  run("solve", ...args, "--backend", "cpu", "--quiet", "--json", report);
  return JSON.parse(readFileSync(report, "utf8"));
}
