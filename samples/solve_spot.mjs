// Solves what `topograd export web arap --mesh samples/data/spot.obj --out spot` wrote, in Node or in a page.
import { load } from "./spot/topograd.js";

const p = await load(new URL("./spot/", import.meta.url));
for await (const step of p.solve({ maxIterations: 5 })) console.log(step.iteration, step.cost);
const positions = p.parameters("positions");

const highest = positions.reduce((best, y, k) => (k % 3 === 1 && y > positions[best] ? k : best), 1);
const vertex = (highest - 1) / 3;
const [x, y, z] = positions.subarray(3 * vertex, 3 * vertex + 3);
p.pin("positions", vertex, [x, y + 0.1, z]);  // a handle that was dragged
const summary = await p.minimize({ maxIterations: 3 });
console.log(summary.message, summary.finalCost);
