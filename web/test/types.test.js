// The types of the package, for a user's program and against objects of the module.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { copyFileSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";

import { writePackage } from "./module.js";

const folder = mkdtempSync(join(tmpdir(), "topograd-"));
after(() => rmSync(folder, { recursive: true }));

const noCompiler = spawnSync("tsc", ["--version"]).status !== 0 ? "no tsc (the package node-typescript)" : false;
for (const resolution of ["node", "node16"])
  test(`a program in TypeScript compiles with the package's types: ${resolution}`, { skip: noCompiler }, () => {
    writePackage(join(folder, "node_modules/@topograd/web"));
    writeFileSync(join(folder, "package.json"), '{ "type": "module" }');
    copyFileSync(join(import.meta.dirname, "types/consumer.ts"), join(folder, "consumer.ts"));
    const { status, stdout } = spawnSync(
      "tsc", ["--noEmit", "--strict", "--target", "es2022", "--module", resolution === "node" ? "es2022" : resolution,
              "--moduleResolution", resolution, "--lib", "es2022,dom", "consumer.ts"],
      { cwd: folder, encoding: "utf8" });
    assert.equal(status, 0, stdout);
  });
