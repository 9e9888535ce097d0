// Where solves that keep a factor run, from times that are made up.
import assert from "node:assert/strict";
import { test } from "node:test";

import { from } from "./module.js";

const { Race } = await from("place.js");

/** Places of solves of two steps, whose seconds a function of the place and of their number tells. */
function run(count, secondsOf) {
  const race = new Race(), places = [];
  for (let k = 0; k < count; ++k) {
    const place = race.next, seconds = secondsOf(place, k);
    places.push(place);
    race.took(place, seconds > race.limit(2) && place === "device" ? Infinity : seconds, 2);
  }
  return { race, places: places.map((place) => place[0]).join("") };
}

test("the faster place is taken, after JavaScript has made its factor", () => {
  for (const { javascript, device, places, reason } of [
    { javascript: 0.1, device: 0.04, places: "jjjddddd", reason: /^$/ },
    { javascript: 0.1, device: 0.16, places: "jjjdjjjj", reason: /JavaScript takes 50 ms a step, and WebGPU 80 ms$/ },
    { javascript: 0.1, device: 4, places: "jjjdjjjj", reason: /50 ms a step, and WebGPU more than twice as long$/ },
  ]) {
    // The factor, and compilers, take long in the first two solves.
    const found = run(8, (place, k) => place === "device" ? device : k < 2 ? 5 : javascript);
    assert.equal(found.places, places);
    assert.match(found.race.reason, reason);
  }
});

test("only the trial on the device has a limit, and one solve that takes long changes nothing", () => {
  assert.equal(run(8, (place, k) => k === 6 || place === "javascript" ? 0.1 : 0.04).places, "jjjddddd");
  const race = new Race();
  assert.equal(race.limit(1), Infinity);
  for (const seconds of [5, 5, 0.25]) race.took("javascript", seconds, 1);
  assert.equal(race.limit(3), 1.5);
  race.took("device", Infinity, 1);
  assert.equal(race.next, "javascript");
  assert.equal(race.limit(3), Infinity);
});
