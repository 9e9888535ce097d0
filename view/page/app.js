// The page of `topograd view`: joins the connection, the view and the controls.
import {Connection, readGeometry} from './connection.js';
import {Plot, drawScale} from './plots.js';
import {Stage} from './stage.js';

const $ = (id) => document.getElementById(id);
const scene = await (await fetch('scene.json')).json();
const geometry = readGeometry(await (await fetch('geometry.bin')).arrayBuffer());

let state = {writes: false, handles: [], weights: {}}, last = null, serial = 0, lastHandle = 0;
const sentAt = new Map(), latencies = [];

const plots = [
  [new Plot($('plot-cost'), ['#1f6feb'], true), (head) => [head.cost]],
  [new Plot($('plot-steps'), ['#2a9d55']), (head) => [head.steps_per_second]],
  [new Plot($('plot-ms'), ['#e4572e', '#8a63d2']), (head) => [head.ms.total, head.ms.linear]],
];

const connection = new Connection({frame: showFrame, state: showState, lost: () => notice('The connection is lost. Trying again …')});
const send = (message) => {
  if (state.writes) connection.send(message);
};

const stage = new Stage($('stage'), scene, geometry, {
  writes: () => state.writes,
  grab(vertex) {
    if (!state.writes) return null;
    const id = 1 + Math.max(lastHandle, ...state.handles.map((handle) => handle.id));
    lastHandle = id;
    send({do: 'grab', handle: id, vertex, radius: radius()});
    return id;
  },
  drag(handle, position, begins) {
    sentAt.set(++serial, performance.now());
    send({do: 'drag', handle, position, serial, begins});
  },
  release(handle) { send({do: 'release', handle}); },
});

function radius() { return 0.3 * $('radius').valueAsNumber ** 2 * scene.size; }

function notice(text) {
  $('notice').textContent = text;
  $('notice').hidden = text === '';
}

function median(values) {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted.length === 0 ? NaN : sorted[Math.floor(sorted.length / 2)];
}

function showFrame(head, frames) {
  last = head;
  stage.show(frames.positions, head.colors ? frames.colors : null);
  for (const [number, time] of sentAt) {
    if (number > head.drag) break;
    if (number === head.drag) latencies.push(performance.now() - time);
    sentAt.delete(number);
  }
  serial = Math.max(serial, head.drag);  // another page may have dragged before this one
  if (latencies.length > 60) latencies.shift();
  for (const [plot, values] of plots) {
    plot.add(values(head));
    plot.draw();
  }
  $('cost').textContent = head.cost === null ? 'not finite' : head.cost.toPrecision(6);
  $('solves').textContent = head.settled ? 'at rest' : head.solves_per_second.toFixed(1);
  $('steps').textContent = head.settled ? '–' : head.steps_per_second.toFixed(1);
  $('latency').textContent = latencies.length === 0 ? '–' : `${median(latencies).toFixed(0)} ms`;
  $('place').textContent = head.device || head.backend;
  $('place').title = `${head.backend}: ${head.device}; ${head.compiled} shaders compiled`;
  $('phases').textContent = `solve ${head.ms.solve.toFixed(0)}, linear ${head.ms.linear.toFixed(0)}`;
  $('legend').hidden = !head.colors;
  $('low').textContent = (head.low ?? NaN).toPrecision(3);
  $('high').textContent = (head.high ?? NaN).toPrecision(3);
}

function showState(now) {
  state = now;
  stage.showHandles(now.handles);
  notice(now.message);
  $('pause').textContent = now.paused ? 'Go on' : 'Pause';
  $('step').disabled = !now.writes || !now.paused;
  $('undo').disabled = !now.writes || now.undo === 0;
  for (const id of ['pause', 'reset', 'radius', 'coloring', 'backend', 'precision', 'method'])
    $(id).disabled = !now.writes;
  $('claim').hidden = now.writes || now.writer;
  $('hint').hidden = !now.writes;
  for (const id of ['coloring', 'backend', 'precision', 'method']) $(id).value = now[id];
  for (const [name, value] of Object.entries(now.weights)) {
    const [input, output] = sliders.get(name);
    input.disabled = !now.writes;
    if (document.activeElement !== input) input.value = String(position(name, value));
    output.textContent = value.toPrecision(3);
  }
}

// Sliders are logarithmic if their range allows it.
const sliders = new Map();
const range = (name) => scene.sliders.find((slider) => slider.name === name);
function position(name, value) {
  const {low, high} = range(name);
  return low > 0 ? Math.log(value / low) / Math.log(high / low) : Math.sqrt((value - low) / (high - low));
}
function weight(name, at) {
  const {low, high} = range(name);
  return low > 0 ? low * (high / low) ** at : low + (high - low) * at * at;
}
for (const {name} of scene.sliders) {
  const label = document.createElement('label'), input = document.createElement('input'),
        output = document.createElement('output');
  Object.assign(input, {type: 'range', min: 0, max: 1, step: 0.005, id: `weight-${name}`});
  label.append(`Weight: ${name} `, output, input);
  input.addEventListener('input', () => send({do: 'weigh', name, value: weight(name, input.valueAsNumber)}));
  $('weights').append(label);
  sliders.set(name, [input, output]);
}

for (const [id, names] of [['coloring', 'colorings'], ['backend', 'backends'], ['precision', 'precisions'], ['method', 'methods']])
  $(id).append(...scene[names].map((name) => new Option(name)));
$('coloring').addEventListener('change', () => send({do: 'color', by: $('coloring').value}));
for (const id of ['backend', 'precision', 'method'])
  $(id).addEventListener('change', () => send({do: 'choose', [id]: $(id).value}));

const showRadius = () => { $('radius-shown').textContent = radius().toPrecision(2); };
$('radius').addEventListener('input', showRadius);
showRadius();
$('pause').addEventListener('click', () => send({do: 'pause', paused: !state.paused}));
for (const name of ['step', 'undo', 'reset']) $(name).addEventListener('click', () => send({do: name}));
$('claim').addEventListener('click', () => connection.send({do: 'claim'}));
addEventListener('keydown', (event) => {
  if (event.target.matches('input, select, button')) return;
  const undo = (event.ctrlKey || event.metaKey) && event.key === 'z';
  const id = undo ? 'undo' : event.ctrlKey || event.metaKey ? '' : {' ': 'pause', s: 'step', r: 'reset'}[event.key];
  if (!id) return;
  event.preventDefault();
  $(id).click();
});

$('png').addEventListener('click', async () => {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(await stage.picture());
  link.download = `${scene.name}.png`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
});
async function look(file) {
  $('text').textContent = await (await fetch(file)).text();
}
$('inspect').addEventListener('click', () => {
  $('inside').showModal();
  look('topologies.txt');
});
for (const button of document.querySelectorAll('[data-file]'))
  button.addEventListener('click', () => look(button.dataset.file));
$('close').addEventListener('click', () => $('inside').close());

$('name').textContent = scene.name;
$('size').textContent = `${scene.points.toLocaleString('en')} points, ${scene.unknowns.toLocaleString('en')} unknowns, ` +
    `${scene.residuals.toLocaleString('en')} residuals`;
document.title = `${scene.name} · Topograd`;
drawScale($('scale'));

// For tests and the browser's console.
window.view = {
  send, project: (position) => stage.project(position),
  get frame() { return last; },
  get state() { return state; },
  get latencies() { return latencies; },
};
