// The page of exported problems in Chromium, served as static files. The variables are those of
// command.test.js; CHROMIUM names the browser if it is not `chromium`.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";

import { Site, noBrowser } from "./browser.js";

const command = process.env.TOPOGRAD;
const source = process.env.TOPOGRAD_SOURCE_DIR ?? join(import.meta.dirname, "../..");
const skip = command === undefined ? "TOPOGRAD does not name the command" : noBrowser;
const site = new Site(), { folder } = site;
let browser;

before(async () => {
  if (skip) return;
  await site.open("--disable-gpu");
  browser = site.browser;
});
after(() => site.close());

function exported(name, ...args) {
  execFileSync(command, ["export", "web", ...args, "--page", "--out", join(folder, name)],
               { stdio: "ignore" });
  return `${site.origin}${name}/`;
}

test("a mesh is solved, and follows a handle", { skip }, async () => {
  const args = ["arap", "--icosphere", "2"];
  const report = join(folder, "report.json");
  execFileSync(command, ["solve", ...args, "--backend", "cpu", "--linear", "cholesky", "--quiet",
                         "--json", report], { stdio: "ignore" });
  const { final_cost: expected } = JSON.parse(readFileSync(report, "utf8"));
  site.requested = [];
  await browser.open(exported("mesh", ...args));
  assert.equal(await browser.evaluate("document.title"), "arap – Topograd");
  await browser.evaluate("document.getElementById('solve').click()");
  await browser.until("page.status");
  const cost = await browser.evaluate("page.cost");
  assert.ok(Math.abs(cost / expected - 1) < 1e-9, `${cost}, ${expected}`);

  const pixel = (vertex) => browser.evaluate(`page.pixel(${vertex})`);
  const at = await pixel(await browser.evaluate("page.highest()"));
  await browser.mouse("mousePressed", at);
  const vertex = await browser.evaluate("page.handle");  // the foremost one there
  const [x, y] = await pixel(vertex);
  for (let k = 1; k <= 10; ++k) await browser.mouse("mouseMoved", [at[0] + 6 * k, at[1] - 2 * k]);
  await browser.mouse("mouseReleased", [at[0] + 60, at[1] - 20], 0);
  await browser.until("page.solves > 0");
  await browser.until(`Math.abs(page.pixel(${vertex})[0] - ${x + 60}) < 1`);
  const moved = await pixel(vertex);
  assert.ok(Math.abs(moved[1] - (y - 20)) < 1, `${moved}`);

  // A button that is used during a drag ends it.
  for (const button of ["free", "reset"]) {
    const from = await pixel(vertex);
    await browser.mouse("mousePressed", from);
    await browser.mouse("mouseMoved", [from[0] - 9, from[1]]);
    await browser.evaluate(`document.getElementById('${button}').click()`);
    await browser.until("document.getElementById('free').disabled");
    await browser.mouse("mouseMoved", [from[0] - 18, from[1]]);
    await browser.mouse("mouseReleased", [from[0] - 18, from[1]], 0);
  }
  // So does one that still waits for the end of a solve.
  const from = await pixel(vertex);
  await browser.mouse("mousePressed", from);
  await browser.evaluate(`{
    const soon = setTimeout;
    globalThis.setTimeout = (call, wait) => soon(call, wait + 300);
    for (const id of ["solve", "free"]) document.getElementById(id).click();
  }`);
  await browser.mouse("mouseReleased", from, 0);
  await browser.mouse("mousePressed", from);
  await browser.until("document.getElementById('free').disabled");
  await browser.mouse("mouseMoved", [from[0] - 9, from[1]]);
  await browser.mouse("mouseReleased", [from[0] - 9, from[1]], 0);
  await browser.until(`Math.abs(page.pixel(${vertex})[0] - ${x + 60}) > 1`);
  assert.deepEqual(browser.errors, []);
  // All that the page asked for lies in its folder.
  assert.ok(site.requested.includes("/mesh/problem.bin"));
  assert.ok(site.requested.every((path) => path.startsWith("/mesh/")), site.requested.join());
});

test("a cloth falls, and follows a handle", { skip }, async () => {
  const url = exported("cloth", "cloth", "--width", "8", "--method", "newton");
  site.requested = [];
  await browser.open(`${url}?device=webgpu`);
  const said = await browser.evaluate("document.getElementById('how').textContent");
  assert.match(said, /by JavaScript in float64 \(energies are minimised in JavaScript\);/);
  await browser.evaluate("document.getElementById('solve').click()");
  await browser.until("page.status");
  assert.equal(await browser.evaluate("page.status"), "convergence");
  const rest = await browser.evaluate("page.cost"), vertex = await browser.evaluate("page.highest()");
  const at = await browser.evaluate(`page.pixel(${vertex})`);
  await browser.mouse("mousePressed", at);
  for (let k = 1; k <= 10; ++k) await browser.mouse("mouseMoved", [at[0], at[1] - 6 * k]);
  await browser.mouse("mouseReleased", [at[0], at[1] - 60], 0);
  const handle = await browser.evaluate("page.handle");
  await browser.until(`page.solves > 0 && page.pixel(${handle})[1] < ${at[1] - 50}`);
  assert.ok(await browser.evaluate("page.cost") > rest);
  const { length } = await browser.evaluate("document.getElementById('state').value.match(/solves\\/s/)");
  assert.equal(length, 1);
  assert.deepEqual(browser.errors, []);
  assert.ok(site.requested.every((path) => path.startsWith("/cloth/")), site.requested.join());
});

const said = () => browser.evaluate("document.getElementById('how').textContent");

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

  // Columns are found by their names.
  await drop("y;weight;x\n" + rows.map(([x, y]) => `${y};1;${x + 1}`).join("\r\n"));
  await browser.until("/c = -1.(4999|5000)/.test(document.getElementById('numbers').textContent)");
  await drop("x,y\n" + rows.map((row) => row.join(",")).join("\n"));
  await browser.until("/c = -(0.9999|1.0000)/.test(document.getElementById('numbers').textContent)");
  await browser.until("page.status === 'convergence'");

  const last = await browser.evaluate("document.getElementById('numbers').textContent");
  // No line is left out, not even the first one, and an empty cell is none of its neighbours.
  for (const [lines, row] of [["NaN,2\n1,2\n3,4\n", 1], ["1,NaN\n1,2\n3,4\n", 1], ["x,y\n1,2\n3,,4\n", 2]]) {
    await browser.evaluate("page.error = undefined");
    await drop(lines);
    await browser.until("page.error");
    assert.match(await said(), new RegExp(`^points.csv: .* got another line \\(row ${row} of numbers\\)`));
    assert.equal(await browser.evaluate("document.getElementById('numbers').textContent"), last);
  }

  await browser.evaluate("page.error = undefined");
  await drop("1,2\n3,<b>four</b>\n");
  await browser.until("page.error");
  assert.match(await said(), /^points.csv: expected two numbers in each line, got another line \(row 2/);
  const after = await browser.evaluate("document.getElementById('numbers').textContent");
  assert.equal(after, last);  // nothing is lost
  assert.deepEqual(browser.errors, []);
});

test("pages of curves that do not share their unknowns are solved", { skip }, async () => {
  const x = [0, 1, 2], y = [2, 1.2, 0.75, 4, 2.2, 1.5], rows = ["p[0] * exp(-p[1] * x) - y"];
  const curve = (parameters, data, more = {}) => ({
    parameters: [{ name: "p", width: 2, values: parameters }], data,
    residuals: [{ label: "pt", expressions: rows, parameters: ["p"], data: ["x", "y"], ...more }] });
  const grouped = curve([1, 0.1, 2, 0.2], { x: [...x, ...x], y },
                        { parameters: { p: { array: "p", index: [0, 0, 0, 1, 1, 1] } } });
  const two = curve([1, 0.1], { x, y: y.slice(0, 3), z: y.slice(3) });
  two.parameters.push({ name: "q", width: 2, values: [2, 0.2] });
  two.residuals.push({ label: "second", expressions: rows, parameters: { p: "q" }, data: { x: "x", y: "z" } });
  const repeated = { ...curve([1, 0.1], { x, y }), repeat: 2 };
  for (const [name, problem] of Object.entries({ grouped, two, repeated })) {
    const path = join(folder, `${name}.json`);
    writeFileSync(path, JSON.stringify(problem));
    await browser.open(exported(name, path));
    assert.equal(await browser.evaluate("page.error"), undefined, name);
    await browser.evaluate("document.getElementById('solve').click()");
    await browser.until("page.status || page.error");
    assert.equal(await browser.evaluate("page.status"), "convergence", name);
    assert.match(await browser.evaluate("document.getElementById('numbers').textContent"), /p\[0\] = 1\.9957/, name);
    assert.deepEqual(browser.errors, []);
  }
});

test("a page says which precision computes, and why another one does not", { skip }, async () => {
  const url = exported("precision", "springs", "--width", "3");
  const small = "the problem is small: 27 unknowns";
  const lacking = "problem.bin: no kernels of the precision f32: export the problem with --f32";
  for (const [asked, why] of [
    ["", small],
    ["?precision=mixed", small],
    ["?precision=f32", `${lacking}; ${small}`],
    ["?device=javascript", "as asked for"],
    ["?device=javascript&precision=f32", lacking],
    ["?device=webgpu&precision=f32", `${lacking}; WebGPU has no adapter`],
  ]) {
    await browser.open(url + asked);
    const text = await said();
    assert.ok(text.startsWith(`Solved on this page, by JavaScript in float64 (${why}); nothing`), text);
    assert.equal(await browser.evaluate("document.getElementById('how').classList.contains('error')"), false);
  }
  await browser.evaluate("document.getElementById('solve').click()");
  await browser.until("page.status");
  assert.deepEqual(browser.errors, []);
  for (const [asked, text] of [
    ["?precision=f16", "TopogradError: precision: expected one of mixed, f32, got f16"],
    ["?device=gpu", "TopogradError: device: expected one of automatic, webgpu, javascript, got gpu"],
  ]) {
    await browser.open(url + asked);
    assert.equal(await said(), text);
  }
});

test("a file of another version is named on the page", { skip }, async () => {
  const url = exported("old", "springs", "--width", "3");
  const path = join(folder, "old/problem.bin"), bytes = readFileSync(path);
  bytes.writeUInt32LE(99, 8);
  writeFileSync(path, bytes);
  await browser.open(url);
  const said = await browser.evaluate("document.getElementById('how').textContent");
  assert.match(said, /^TopogradError: .*expected a file of version 2, got version 99/);
});
