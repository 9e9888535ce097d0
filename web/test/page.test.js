// The page of exported problems in Chromium, served as static files. The variables are those of
// command.test.js; CHROMIUM names the browser if it is not `chromium`.
import assert from "node:assert/strict";
import { execFileSync, spawn, spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { extname, join } from "node:path";
import { after, before, test } from "node:test";

const command = process.env.TOPOGRAD;
const source = process.env.TOPOGRAD_SOURCE_DIR ?? join(import.meta.dirname, "../..");
const program = process.env.CHROMIUM ?? "chromium";
const skip = command === undefined ? "TOPOGRAD does not name the command"
  : spawnSync(program, ["--version"]).status !== 0 ? "no Chromium" : false;

const folder = mkdtempSync(join(tmpdir(), "topograd-"));
const types = { ".html": "text/html", ".js": "text/javascript", ".css": "text/css" };
let server, origin, browser, requested = [];

before(async () => {
  if (skip) return;
  server = createServer((request, answer) => {
    const path = request.url.endsWith("/") ? request.url + "index.html" : request.url;
    requested.push(path);
    try {
      const bytes = readFileSync(join(folder, path));
      answer.writeHead(200, { "content-type": types[extname(path)] ?? "application/octet-stream" });
      answer.end(bytes);
    } catch {
      answer.writeHead(404).end();
    }
  });
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  origin = `http://127.0.0.1:${server.address().port}/`;
  browser = new Browser();
});
after(async () => {
  await browser?.close();
  server?.close();
  rmSync(folder, { recursive: true, maxRetries: 5 });
});

/** Chromium, driven by the DevTools protocol over pipes. */
class Browser {
  constructor() {
    this.process = spawn(program, [
      "--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe",
      `--user-data-dir=${join(folder, "profile")}`, "--window-size=900,600", "about:blank",
    ], { stdio: ["ignore", "ignore", "ignore", "pipe", "pipe"] });
    this.waiting = new Map();
    this.errors = [];
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
  async open(url) {
    const { targetId } = await this.call("Target.createTarget", { url: "about:blank" }, undefined);
    ({ sessionId: this.session } =
      await this.call("Target.attachToTarget", { targetId, flatten: true }, undefined));
    this.errors = [];
    for (const domain of ["Page", "Runtime", "Log"]) await this.call(`${domain}.enable`);
    await this.call("Page.navigate", { url });
    await this.until("globalThis.page?.ready || globalThis.page?.error");
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
    const ended = new Promise((done) => this.process.on("exit", done));
    await this.call("Browser.close", {}, undefined);
    await ended;
  }
}

function exported(name, ...args) {
  execFileSync(command, ["export", "web", ...args, "--page", "--out", join(folder, name)],
               { stdio: "ignore" });
  return `${origin}${name}/`;
}

test("a mesh is solved, and follows a handle", { skip }, async () => {
  const args = ["arap", "--icosphere", "2"];
  const report = join(folder, "report.json");
  execFileSync(command, ["solve", ...args, "--backend", "cpu", "--linear", "cholesky", "--quiet",
                         "--json", report], { stdio: "ignore" });
  const { final_cost: expected } = JSON.parse(readFileSync(report, "utf8"));
  requested = [];
  await browser.open(exported("mesh", ...args));
  assert.equal(await browser.evaluate("document.title"), "arap – Topograd");
  await browser.evaluate("document.getElementById('solve').click()");
  await browser.until("page.status");
  const cost = await browser.evaluate("page.cost");
  assert.ok(Math.abs(cost / expected - 1) < 1e-9, `${cost}, ${expected}`);

  const place = (vertex) => browser.evaluate(`page.place(${vertex})`);
  const at = await place(await browser.evaluate("page.highest()"));
  await browser.mouse("mousePressed", at);
  const vertex = await browser.evaluate("page.handle");  // the foremost one there
  const [x, y] = await place(vertex);
  for (let k = 1; k <= 10; ++k) await browser.mouse("mouseMoved", [at[0] + 6 * k, at[1] - 2 * k]);
  await browser.mouse("mouseReleased", [at[0] + 60, at[1] - 20], 0);
  await browser.until("page.solves > 0");
  await browser.until(`Math.abs(page.place(${vertex})[0] - ${x + 60}) < 1`);
  const moved = await place(vertex);
  assert.ok(Math.abs(moved[1] - (y - 20)) < 1, `${moved}`);

  await browser.evaluate("document.getElementById('reset').click()");
  await browser.until(`Math.abs(page.place(${vertex})[0] - ${x + 60}) > 1`);
  assert.deepEqual(browser.errors, []);
  // All that the page asked for lies in its folder.
  assert.ok(requested.includes("/mesh/problem.bin"));
  assert.ok(requested.every((path) => path.startsWith("/mesh/")), requested.join());
});

test("a curve takes the points of a dropped file", { skip }, async () => {
  await browser.open(exported("curve", join(source, "samples/data/curve_fit.json")));
  const drop = (text) => browser.evaluate(`{
    const files = new DataTransfer();
    files.items.add(new File([${JSON.stringify(text)}], "points.csv"));
    dispatchEvent(new DragEvent("drop", { dataTransfer: files }));
  }`);
  // y = exp(0.5 x - 1), without noise; the file also wishes for a small m, at weight 1e-6.
  const rows = Array.from({ length: 30 }, (_, k) => [k / 10, Math.exp(k / 20 - 1)]);
  await drop("x,y\n" + rows.map((row) => row.join(",")).join("\n"));
  await browser.until("page.status === 'convergence'");
  const text = await browser.evaluate("document.getElementById('numbers').textContent");
  const [m, c] = text.split("\n").map((line) => Number(line.split(" = ")[1]));
  assert.ok(Math.abs(m - 0.5) < 1e-4 && Math.abs(c + 1) < 1e-4, text);

  await drop("1,2\n3,<b>four</b>\n");
  await browser.until("page.error");
  const said = await browser.evaluate("document.getElementById('how').textContent");
  assert.match(said, /^points.csv: expected two numbers in each line, got another line \(row 2/);
  const after = await browser.evaluate("document.getElementById('numbers').textContent");
  assert.equal(after, text);  // nothing is lost
  assert.deepEqual(browser.errors, []);
});

test("a file of another version is named on the page", { skip }, async () => {
  const url = exported("old", "springs", "--width", "3");
  const path = join(folder, "old/problem.bin"), bytes = readFileSync(path);
  bytes.writeUInt32LE(99, 8);
  writeFileSync(path, bytes);
  await browser.open(url);
  const said = await browser.evaluate("document.getElementById('how').textContent");
  assert.match(said, /^TopogradError: .*expected a file of version 1, got version 99/);
});
