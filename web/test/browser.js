// Chromium for tests, and a server for the files that it opens.
import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { extname, join } from "node:path";

const program = process.env.CHROMIUM ?? "chromium";
/** False, or why there is no browser. */
export const noBrowser = spawnSync(program, ["--version"]).status !== 0 ? "no Chromium" : false;

const types = { ".html": "text/html", ".js": "text/javascript", ".css": "text/css" };

/** A folder for files, a server for them, and a browser with these flags besides its own. */
export class Site {
  requested = [];
  folder = mkdtempSync(join(tmpdir(), "topograd-"));

  async open(...flags) {
    this.server = createServer((request, answer) => {
      const [name] = request.url.split("?"), path = name.endsWith("/") ? name + "index.html" : name;
      this.requested.push(path);
      try {
        const bytes = readFileSync(join(this.folder, path));
        answer.writeHead(200, { "content-type": types[extname(path)] ?? "application/octet-stream" });
        answer.end(bytes);
      } catch {
        answer.writeHead(404).end();
      }
    });
    await new Promise((done) => this.server.listen(0, "127.0.0.1", done));
    this.origin = `http://127.0.0.1:${this.server.address().port}/`;
    this.browser = new Browser(join(this.folder, "profile"), flags);
  }

  /** Writes what ran of the files of this site, as Node does for its own. */
  #keepCoverage(scripts) {
    if (scripts.length === 0) return;
    const result = scripts.filter(({ url }) => url.startsWith(this.origin))
      .map((script) => ({ ...script, url: `file://${join(this.folder, new URL(script.url).pathname)}` }));
    mkdirSync(coverage, { recursive: true });
    writeFileSync(join(coverage, `browser-${process.pid}-${Date.now()}.json`), JSON.stringify({ result }));
  }

  async close() {
    await this.browser?.close();
    this.#keepCoverage(this.browser?.covered ?? []);
    this.server?.close();
    rmSync(this.folder, { recursive: true, maxRetries: 5 });
  }
}

/** Where Node writes what runs, by its own variable; nothing otherwise. */
const coverage = process.env.NODE_V8_COVERAGE;

/** Chromium, driven by the DevTools protocol over pipes. */
class Browser {
  constructor(profile, flags) {
    this.process = spawn(program, [
      "--headless=new", "--no-sandbox", "--remote-debugging-pipe", `--user-data-dir=${profile}`,
      "--window-size=900,600", ...flags, "about:blank",
    ], { stdio: ["ignore", "ignore", "ignore", "pipe", "pipe"] });
    this.waiting = new Map();
    this.errors = [];
    this.covered = [];
    this.number = 0;
    let text = "";
    this.process.stdio[4].setEncoding("utf8").on("data", (part) => {
      text += part;
      const messages = text.split("\0");
      text = messages.pop();
      for (const message of messages) this.#hear(JSON.parse(message));
    });
  }

  #hear({ id, result, error, method, params }) {
    if (method === "Runtime.exceptionThrown") this.errors.push(params.exceptionDetails.text);
    if (method === "Log.entryAdded" && params.entry.level === "error")
      this.errors.push(`${params.entry.text} ${params.entry.url ?? ""}`);
    const waiting = this.waiting.get(id);
    if (waiting === undefined) return;
    this.waiting.delete(id);
    if (error === undefined) waiting.done(result);
    else waiting.failed(new Error(error.message));
  }

  call(method, params = {}, sessionId = this.session) {
    const id = ++this.number;
    this.process.stdio[3].write(JSON.stringify({ id, method, params, sessionId }) + "\0");
    return new Promise((done, failed) => this.waiting.set(id, { done, failed }));
  }

  /** Opens an address in a new page, and waits for the problem or an error. */
  async open(url, until = "globalThis.page?.ready || globalThis.page?.error") {
    await this.#cover();
    const { targetId } = await this.call("Target.createTarget", { url: "about:blank" }, undefined);
    ({ sessionId: this.session } =
      await this.call("Target.attachToTarget", { targetId, flatten: true }, undefined));
    this.errors = [];
    for (const domain of ["Page", "Runtime", "Log"]) await this.call(`${domain}.enable`);
    if (coverage !== undefined) {
      await this.call("Profiler.enable");
      await this.call("Profiler.startPreciseCoverage", { callCount: true, detailed: true });
    }
    await this.call("Page.navigate", { url });
    await this.until(until);
  }

  /** What has run in the page that is open. */
  async #cover() {
    if (coverage === undefined || this.session === undefined) return;
    this.covered.push(...(await this.call("Profiler.takePreciseCoverage")).result);
  }

  async evaluate(expression) {
    const answer = await this.call("Runtime.evaluate",
                                   { expression, awaitPromise: true, returnByValue: true });
    if (answer.exceptionDetails !== undefined)
      throw new Error(answer.exceptionDetails.exception?.description);
    return answer.result.value;
  }

  async until(expression) {
    for (const end = Date.now() + 30_000; Date.now() < end;) {
      if (await this.evaluate(`Boolean(${expression})`)) return;
      await new Promise((done) => setTimeout(done, 20));
    }
    assert.fail(`not within 30 s: ${expression}`);
  }

  mouse(type, [x, y], buttons = 1) {
    return this.call("Input.dispatchMouseEvent",
                     { type, x, y, buttons, button: "left", clickCount: 1 });
  }

  async close() {
    await this.#cover();
    const ended = new Promise((done) => this.process.on("exit", done));
    await this.call("Browser.close", {}, undefined);
    await ended;
  }
}
