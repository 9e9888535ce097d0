// The compiled module: that of the exported folder which the variable TOPOGRAD_WEB names, or that of `npm run build`.
import { cpSync, mkdirSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const source = join(import.meta.dirname, "..");
const compiled = process.env.TOPOGRAD_WEB ?? join(source, "dist");

/** Imports a file of the module. */
export const from = (file) => import(pathToFileURL(join(compiled, file)).href);
export const { Problem, TopogradError, load } = await from("topograd.js");

/** Writes the package as npm packs it from the source tree, but without its scripts. */
export function writePackage(folder) {
  mkdirSync(join(folder, "test"), { recursive: true });
  for (const name of ["package.json", "README.md", "test/package.test.js"])
    cpSync(join(source, name), join(folder, name));
  const files = readdirSync(compiled).filter((name) => /\.(js|d\.ts)$/.test(name) && name !== "kernels.js");
  for (const name of files) cpSync(join(compiled, name), join(folder, "dist", name));
}
