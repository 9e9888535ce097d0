// node bench/web_speed.js FOLDER [javascript|webgpu|automatic] [mixed|f32]: how long an exported problem takes to solve, and how many
// solves a second follow a dragged block. Prints one line of JSON.
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";

const [folder, device = "automatic", precision = "mixed"] = process.argv.slice(2);
if (folder === undefined) {
  console.error("usage: node bench/web_speed.js FOLDER [javascript|webgpu|automatic] [mixed|f32]");
  process.exit(2);
}
const url = pathToFileURL(resolve(folder) + "/");
const { load } = await import(new URL("topograd.js", url));
const seconds = (since) => (performance.now() - since) / 1000;

let since = performance.now();
const problem = await load(url, { device, precision });
const found = { device: problem.device, precision, reason: problem.reason, load_s: seconds(since) };
const starts = problem.arrays.map((name) => [name, problem.parameters(name)]);
// The first solve opens the device and compiles its kernels, or lets JavaScript compile.
for (const name of ["first_s", "again_s"]) {
  for (const [array, numbers] of starts) problem.set(array, numbers);
  since = performance.now();
  const summary = await problem.minimize({ maxIterations: 200 });
  found[name] = seconds(since);
  Object.assign(found, { status: summary.status, cost: summary.finalCost, steps: summary.iterations, linear: summary.linearIterations });
}

// A block in the middle is dragged in a circle; the others follow.
const [array, numbers] = starts[0], width = problem.width(array);
const block = Math.floor(numbers.length / width / 2);
const centre = [...problem.parameters(array).subarray(block * width, (block + 1) * width)];
const radius = 0.02 * (Math.max(...numbers.subarray(0, 3000)) - Math.min(...numbers.subarray(0, 3000)));
const drag = { maxIterations: 2, reuseFactor: true, linearTolerance: 0.1 };
const drags = 60;
for (let k = -5; k < drags; ++k) {
  if (k === 0) since = performance.now();
  const at = centre.with(0, centre[0] + radius * Math.cos(k / 5)).with(1, centre[1] + radius * Math.sin(k / 5));
  problem.pin(array, block, at);
  await problem.minimize(drag);
}
found.drags_a_second = drags / seconds(since);
console.log(JSON.stringify(found));
process.exit(0);
