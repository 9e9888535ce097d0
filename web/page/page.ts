// The page of an exported problem: shows it, and solves it here.
import {
  type LoadOptions, type Problem, type SolveOptions, type Step, type Summary, TopogradError, load,
} from "./topograd.js";

/** The element of index.html with an id, of a kind. */
function element<E extends HTMLElement>(id: string, kind: new () => E): E {
  const found = document.getElementById(id);
  if (!(found instanceof kind)) throw new Error(`index.html: no ${kind.name} "${id}"`);
  return found;
}
function contextOf(of: HTMLCanvasElement): CanvasRenderingContext2D {
  const found = of.getContext("2d");
  if (found === null) throw new Error("the canvas has no context");
  return found;
}
const canvas = element("view", HTMLCanvasElement), context = contextOf(canvas);
const how = element("how", HTMLElement), numbers = element("numbers", HTMLElement);
const state = element("state", HTMLOutputElement), free = element("free", HTMLButtonElement);
const colour = (name: string) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
/** A solve while a handle moves: a few steps that need not be exact. */
const dragged: SolveOptions = { maxIterations: 2, reuseFactor: true, linearTolerance: 0.1 };
const mostNumbers = 40;
/** What the precisions of WebGPU are. */
const precisions: Readonly<Record<string, string>> = {
  f32: ": float32, and float64 confirms the end", mixed: ": float32, refined in float64",
};
const precisionOf = (device: string) => device.split(", ").at(-1) ?? device;
/** The module's reason where a page has asked for JavaScript. */
const asIs = "as asked for";
/** Of a handle on a mesh, as a share of the mesh's size. */
const handleRadius = 0.05;

/** A picture of the problem's numbers; refresh() reads them. Space can be turned and pulled. */
interface Picture {
  readonly hint: string;
  draw(): void;
  refresh(): void;
}
const nothing: Picture = { draw() {}, refresh() {}, hint: "" };

/** A point in space, or a corner of the picture. */
type Point = number[];

let problem: Problem, start: [name: string, values: Float64Array][] = [], picture = nothing, error = false;
/** Facts of the page, for tests. */
interface Shown {
  solves: number;   // while a handle moves, and their seconds
  seconds: number;
  cost: number;
  steps: number;
  drawn: number;
  ready: boolean;
  missing: string[];
  device: string;
  last: string;
  status?: Summary["status"];
  error?: string;
  handle?: number | undefined;
  /** The place of a point on the page. */
  pixel(vertex: number): number[];
  /** The highest point that lies before those behind it. */
  highest(): number;
}
const shown: Shown = {
  solves: 0, seconds: 0, cost: NaN, steps: 0, drawn: 0, ready: false, missing: [], device: "", last: "",
  pixel(vertex) {
    const { pixel } = projected();
    return [...pixel.subarray(3 * vertex, 3 * vertex + 2)].map((v) => v / devicePixelRatio);
  },
  highest() {
    const { pixel, count } = projected();
    let best = 0;
    for (let k = 0; k < count; ++k)
      if (pixel[3 * k + 1] < pixel[3 * best + 1]) best = k;
    return best;
  },
};
Object.assign(globalThis, { page: shown });

function projected(): Space {
  if (!(picture instanceof Space)) throw new Error("the picture has no points");
  picture.project();
  return picture;
}

function say(text: string, isError = false): void {
  if (error && !isError) return;
  how.textContent = text;
  how.classList.toggle("error", isError);
  error = isError;
}
function fail(what: unknown, name = what instanceof Error ? what.name : "Error"): void {
  shown.error = what instanceof Error ? what.message : String(what);
  say(`${name}: ${shown.error}`, true);
}

/** Points in the plane or in space, with triangles or lines between them. */
class Space implements Picture {
  readonly array: string;
  readonly width: number;
  readonly faces: Uint32Array;
  readonly links: Uint32Array;
  readonly flat: boolean;
  readonly hint: string;
  readonly handles = new Map<number, Map<number, Point>>();  // vertex -> its points and those around it
  readonly pixel: Float64Array;
  turn: number;
  tilt: number;
  touched = false;  // the view is as its user wants it
  count = 0;
  points = new Float64Array(0);
  middle: Point = [0, 0, 0];
  size = 1;
  zoom = 1;
  shift: Point = [0, 0];

  constructor(array: string, faces: Uint32Array) {
    this.array = array;
    this.width = problem.width(array);
    this.faces = faces;
    this.links = faces.length > 0 ? new Uint32Array(0) : problem.links(array);
    this.flat = this.width === 2;
    this.turn = this.flat ? 0 : 0.6;
    this.tilt = this.flat ? 0 : 0.35;
    this.refresh();
    this.pixel = new Float64Array(3 * this.count);
    this.look();
    const what = faces.length > 0 ? "vertex" : "point";
    this.hint = `Drag a ${what} to pull it; drag beside it to ${this.flat ? "move" : "turn"} the view.`;
  }

  refresh(): void {
    const x = problem.parameters(this.array);
    this.count = x.length / this.width;
    this.points = new Float64Array(3 * this.count);
    for (let k = 0; k < this.count; ++k)
      for (let c = 0; c < this.width; ++c) this.points[3 * k + c] = x[this.width * k + c];
  }

  /** Frames what lies between the first and the last hundredth of the coordinates. */
  look(): void {
    const middle: Point = [], spread: Point = [];
    for (let c = 0; c < 3; ++c) {
      const sorted = this.points.filter((_, k) => k % 3 === c).sort();
      const cut = this.faces.length > 0 ? 0 : Math.floor(sorted.length / 100);
      const low = sorted[cut], high = sorted[sorted.length - 1 - cut];
      middle.push((low + high) / 2);
      spread.push(high - low);
    }
    this.middle = middle;
    this.size = Math.hypot(...spread) || 1;
    this.zoom = 1;
    this.shift = [0, 0];
  }

  get scale(): number {
    return 0.85 * this.zoom * Math.min(canvas.width, canvas.height) / this.size;
  }

  project(): void {
    const { points, pixel, middle, scale } = this;
    const c = Math.cos(this.turn), s = Math.sin(this.turn), ct = Math.cos(this.tilt), st = Math.sin(this.tilt);
    const left = canvas.width / 2 + this.shift[0], top = canvas.height / 2 + this.shift[1];
    for (let k = 0; k < points.length; k += 3) {
      const x = points[k] - middle[0], y = points[k + 1] - middle[1], z = points[k + 2] - middle[2];
      const across = c * x + s * z, into = c * z - s * x;
      pixel[k] = left + scale * across;
      pixel[k + 1] = top - scale * (ct * y - st * into);
      pixel[k + 2] = scale * (st * y + ct * into);  // towards the eye
    }
  }

  draw(): void {
    this.project();
    if (this.faces.length > 0) this.#drawFaces();
    else this.#drawPoints();
    context.fillStyle = colour("--model");
    for (const vertex of this.handles.keys()) {
      context.beginPath();
      context.arc(this.pixel[3 * vertex], this.pixel[3 * vertex + 1], 6 * devicePixelRatio, 0, 7);
      context.fill();
    }
  }

  #drawFaces(): void {
    const { pixel, faces } = this, count = faces.length / 3, depth = new Float64Array(count);
    for (let f = 0; f < count; ++f)
      for (let c = 0; c < 3; ++c) depth[f] += pixel[3 * faces[3 * f + c] + 2];
    const order = Uint32Array.from(depth.keys()).sort((a, b) => depth[a] - depth[b]);
    context.lineWidth = 0.7;
    for (const f of order) {
      const a = 3 * faces[3 * f], b = 3 * faces[3 * f + 1], c = 3 * faces[3 * f + 2];
      const ux = pixel[b] - pixel[a], uy = pixel[a + 1] - pixel[b + 1], uz = pixel[b + 2] - pixel[a + 2];
      const vx = pixel[c] - pixel[a], vy = pixel[a + 1] - pixel[c + 1], vz = pixel[c + 2] - pixel[a + 2];
      const nx = uy * vz - uz * vy, ny = uz * vx - ux * vz, nz = ux * vy - uy * vx;
      const light = Math.abs(-0.3 * nx + 0.5 * ny + 0.8 * nz) / (Math.hypot(nx, ny, nz) || 1);
      context.fillStyle = context.strokeStyle = `hsl(212 40% ${26 + 46 * Math.min(light, 1)}%)`;
      context.beginPath();
      context.moveTo(pixel[a], pixel[a + 1]);
      context.lineTo(pixel[b], pixel[b + 1]);
      context.lineTo(pixel[c], pixel[c + 1]);
      context.closePath();
      context.fill();
      context.stroke();
    }
  }

  #drawPoints(): void {
    const { pixel, links } = this;
    context.strokeStyle = colour("--line");
    context.lineWidth = 0.8 * devicePixelRatio;
    context.beginPath();
    for (let k = 0; k < links.length; k += 2) {
      context.moveTo(pixel[3 * links[k]], pixel[3 * links[k] + 1]);
      context.lineTo(pixel[3 * links[k + 1]], pixel[3 * links[k + 1] + 1]);
    }
    context.stroke();
    context.fillStyle = colour("--mark");
    const half = (this.count > 3000 ? 0.8 : 1.6) * devicePixelRatio;
    for (let k = 0; k < pixel.length; k += 3)
      context.fillRect(pixel[k] - half, pixel[k + 1] - half, 2 * half, 2 * half);
  }

  /** The foremost point near a pixel, or undefined. */
  nearest(x: number, y: number): number | undefined {
    this.project();
    let best: number | undefined, depth = -Infinity;
    const reach = 12 * devicePixelRatio;
    for (let k = 0; k < this.count; ++k) {
      const distance = Math.hypot(this.pixel[3 * k] - x, this.pixel[3 * k + 1] - y);
      // Before others by depth; of those alike, the nearest.
      const front = this.pixel[3 * k + 2] - distance / 2;
      if (distance < reach && front > depth) {
        best = k;
        depth = front;
      }
    }
    return best;
  }

  /** Makes a handle of a point; on a mesh, of the points around it, too. */
  grab(vertex: number): void {
    const at = this.#point(vertex), group = new Map([[vertex, at]]);
    for (let k = 0; this.faces.length > 0 && k < this.count; ++k) {
      const one = this.#point(k);
      if (Math.hypot(...one.map((v, c) => v - at[c])) < handleRadius * this.size) group.set(k, one);
    }
    this.handles.set(vertex, group);
  }

  #point(k: number): Point {
    return [...this.points.subarray(3 * k, 3 * k + 3)];
  }

  /** Moves a handle by pixels in the plane of the view. */
  pull(vertex: number, dx: number, dy: number): void {
    const right = dx / this.scale, up = -dy / this.scale;
    const c = Math.cos(this.turn), s = Math.sin(this.turn), ct = Math.cos(this.tilt), st = Math.sin(this.tilt);
    const move = [c * right + s * st * up, ct * up, s * right - c * st * up];
    for (const at of this.handles.get(vertex)?.values() ?? []) at.forEach((v, k) => at[k] = v + move[k]);
  }

  pin(): void {
    for (const group of this.handles.values())
      for (const [vertex, at] of group) problem.pin(this.array, vertex, at.slice(0, this.width));
  }

  release(): void {
    for (const group of this.handles.values())
      for (const vertex of group.keys()) problem.release(this.array, vertex);
    this.handles.clear();
  }
}

/** A column of data at whose rate, 1 or -1, residuals change; the first one that does. */
interface Fitted {
  readonly column: number;
  readonly rate: number;
  readonly first: number;
}

/**
 * Which column of a term's data is fitted: its residuals change with it at the rate 1, or -1; those
 * with weight 0 do not change.
 */
function fittedColumn(label: string, columns: number): Fitted | undefined {
  const data = problem.data(label), before = problem.residuals(label);
  for (let column = columns; column-- > 0;) {
    const moved = data.map((value, k) => k % columns === column ? value + 1 : value);
    const change = problem.residuals(label, moved).map((value, k) => value - before[k]);
    const changed = change.filter((v) => Math.abs(v) > 1e-6), rate = Math.round(changed[0]);
    if (2 * changed.length > change.length && Math.abs(rate) === 1 &&
        changed.every((v) => Math.abs(v - rate) < 1e-6))
      return { column, rate, first: change.indexOf(changed[0]) };
  }
  return undefined;
}

/** Returns true if all residuals of a term read the same unknowns: only those take data of more points. */
function readsSameUnknowns(label: string, columns: number): boolean {
  const data = problem.data(label);
  try {
    problem.residuals(label, [...data, ...data.subarray(0, columns)]);
    return true;
  } catch (what) {
    if (!(what instanceof TopogradError) || what.code !== "argument") throw what;
    return false;
  }
}

/** A curve and the points that it fits. */
class Curve implements Picture {
  readonly label: string;
  readonly columns: number;
  readonly like: Float64Array;  // data of a residual that changes
  readonly x: number;           // columns
  readonly y: number;
  readonly rate: number;
  readonly hint = "Drop a CSV file with columns x and y on the page to fit it.";
  data = new Float64Array(0);

  /** A curve for the first label that has one, or undefined. */
  static find(): Curve | undefined {
    for (const label of problem.labels) {
      const rows = problem.residuals(label).length, data = problem.data(label);
      const columns = data.length / rows;
      if (rows < 4 || !(columns >= 2 && columns <= 4)) continue;
      const fitted = readsSameUnknowns(label, columns) ? fittedColumn(label, columns) : undefined;
      if (fitted !== undefined) return new Curve(label, columns, fitted);
    }
    return undefined;
  }

  constructor(label: string, columns: number, { column, rate, first }: Fitted) {
    this.label = label;
    this.like = problem.data(label).slice(first * columns, (first + 1) * columns);
    this.columns = columns;
    this.y = column;
    const kinds = (c: number) => new Set(problem.data(label).filter((_, k) => k % columns === c)).size;
    const others = Array.from({ length: columns }, (_, c) => c).filter((c) => c !== column);
    this.x = others.sort((a, b) => kinds(b) - kinds(a))[0];
    this.rate = rate;
    this.refresh();
  }

  refresh(): void {
    this.data = problem.data(this.label);
  }

  draw(): void {
    const { data, columns, rate } = this, pick = (c: number) => data.filter((_, k) => k % columns === c);
    const xs = pick(this.x), ys = pick(this.y);
    const low = Math.min(...xs), high = Math.max(...xs), count = 300;
    const probes = new Float64Array(count * columns);
    for (let k = 0; k < count; ++k) {
      probes.set(this.like, k * columns);
      probes[k * columns + this.x] = low + (high - low) * k / (count - 1);
      probes[k * columns + this.y] = 0;
    }
    const curve = problem.residuals(this.label, probes).map((value) => -rate * value);
    const finite = [...ys, ...curve.filter(Number.isFinite)];
    const least = Math.min(...ys), most = Math.max(...ys), room = (most - least || 1) / 2;
    const bottom = Math.max(Math.min(...finite), least - room), top = Math.min(Math.max(...finite), most + room);
    const unit = devicePixelRatio, left = 70 * unit, beside = numbers.offsetWidth;
    const right = canvas.width - (40 + beside) * unit;
    const above = 90 * unit, below = canvas.height - 140 * unit;
    const px = (x: number) => left + (right - left) * (x - low) / (high - low || 1);
    const py = (y: number) => below - (below - above) * (y - bottom) / (top - bottom || 1);
    context.font = `${12 * unit}px system-ui, sans-serif`;
    context.fillStyle = colour("--quiet");
    context.strokeStyle = colour("--line");
    context.lineWidth = 0.5 * unit;
    context.strokeRect(left, above, right - left, below - above);
    for (let k = 0; k <= 4; ++k) {
      const x = low + (high - low) * k / 4, y = bottom + (top - bottom) * k / 4;
      context.textAlign = "center";
      context.fillText(String(Number(x.toPrecision(4))), px(x), below + 18 * unit);
      context.textAlign = "right";
      context.fillText(String(Number(y.toPrecision(4))), left - 8 * unit, py(y) + 4 * unit);
    }
    context.strokeStyle = colour("--model");
    context.lineWidth = 2 * unit;
    context.save();
    context.beginPath();
    context.rect(left, above, right - left, below - above);
    context.clip();
    context.beginPath();
    for (let k = 0; k < count; ++k)
      context[k === 0 ? "moveTo" : "lineTo"](px(probes[k * columns + this.x]), py(curve[k]));
    context.stroke();
    context.restore();
    context.fillStyle = colour("--mark");
    for (let k = 0; k < xs.length; ++k) {
      context.beginPath();
      context.arc(px(xs[k]), py(ys[k]), 4 * unit, 0, 7);
      context.fill();
    }
  }

  /** Takes the numbers of a CSV file. */
  take(text: string): void {
    const number = (cell: string | undefined) => cell === undefined || cell === "" ? NaN : Number(cell);
    const lines = text.split(/\r?\n/).map((line) => line.trim()).filter((line) => line !== "")
      .map((line) => line.split(/\s*[,;\t]\s*| +/));
    const isName = (cell: string) => Number.isNaN(number(cell)) && !/^[-+]?nan$/i.test(cell);
    const names = lines[0]?.every(isName) ? lines.splice(0, 1)[0] : [];
    const named = ["x", "y"].map((name) => names.indexOf(name)), from = named.includes(-1) ? [0, 1] : named;
    const rows = lines.map((cells) => from.map((column) => number(cells[column])));
    const wrong = rows.findIndex((row) => !row.every(Number.isFinite));
    if (rows.length === 0 || wrong >= 0)
      throw new Error(`expected two numbers in each line, got ${
        wrong < 0 ? "none" : `another line (row ${wrong + 1} of numbers)`}`);
    const data = new Float64Array(rows.length * this.columns);
    rows.forEach(([x, y], k) => {
      data.set(this.like, k * this.columns);
      data[k * this.columns + this.x] = x;
      data[k * this.columns + this.y] = y;
    });
    problem.set(this.label, data);
    this.refresh();
  }
}

function choosePicture(): Picture {
  if (problem.faces.length > 0) return new Space(problem.arrays[0], problem.faces);
  const curve = Curve.find();
  if (curve !== undefined) return curve;
  const size = (name: string) => problem.parameters(name).length / problem.width(name);
  const spaces = problem.arrays.filter((name) => [2, 3].includes(problem.width(name)) && size(name) > 2);
  spaces.sort((a, b) => size(b) - size(a));
  return spaces.length > 0 ? new Space(spaces[0], new Uint32Array(0)) : nothing;
}

function draw(): void {
  const width = canvas.clientWidth * devicePixelRatio, height = canvas.clientHeight * devicePixelRatio;
  if (canvas.width !== width || canvas.height !== height) {
    canvas.width = width;
    canvas.height = height;
  }
  context.clearRect(0, 0, width, height);
  picture.draw();
  shown.drawn += 1;
}

/** What computes, in which precision, and why. */
function introduce(): void {
  const { device, reason } = problem, { missing } = shown, key = device + reason;
  if (key === shown.device) return;
  shown.device = key;
  const reasons = [...missing, missing.length > 0 && reason === asIs ? "" : reason].filter((text) => text !== "");
  say(`Solved on this page, by ${device}${precisions[precisionOf(device)] ?? " in float64"}${
    reasons.length > 0 ? ` (${reasons.join("; ")})` : ""}; nothing is sent anywhere. ${picture.hint}`);
}

/** Loads the problem. What the address asks for and is not there is left out, and is told. */
async function open(address: URL, options: LoadOptions): Promise<Problem> {
  try {
    return await load(address, options);
  } catch (what) {
    if (!(what instanceof TopogradError)) throw what;
    const { code, message } = what, isMissing = code === "adapter" || code === "device";
    if (!isMissing && !(code === "file" && options.precision === "f32")) throw what;
    shown.missing.push(message);
    return open(address, isMissing ? { ...options, device: "javascript" } : { ...options, precision: "mixed" });
  }
}

function tell(): void {
  introduce();
  const rate = shown.seconds > 0 && picture instanceof Space && picture.handles.size > 0
    ? `, ${(shown.solves / shown.seconds).toFixed(1)} solves/s` : "";
  state.value = `cost ${shown.cost.toPrecision(9)}${rate}${shown.last}`;
  if (picture instanceof Space) return;
  const lines = problem.arrays.flatMap((name) => {
    const values = [...problem.parameters(name)];
    return values.slice(0, mostNumbers).map((v, k) =>
      `${values.length > 1 ? `${name}[${k}]` : name} = ${v.toPrecision(10)}`);
  });
  numbers.hidden = false;
  numbers.textContent = lines.join("\n");
}

function refresh(): void {
  picture.refresh();
  draw();
  tell();
}

let busy = false, held: { x: number; y: number; readonly vertex: number | undefined } | undefined;
let next: SolveOptions | undefined, stopping: AbortController | undefined;
/** Ends the solve that runs, and a drag. */
async function stop(): Promise<void> {
  stopping?.abort();
  for (;;) {
    held = next = undefined;
    if (!busy) return;
    await new Promise((done) => setTimeout(done, 5));
  }
}

/** Solves; while one solve runs, the last wish waits. */
async function solve(options: SolveOptions): Promise<void> {
  next = options;
  if (busy) return;
  busy = true;
  try {
    while (next !== undefined) {
      const now: SolveOptions = next, begin = performance.now();
      next = undefined;
      if (picture instanceof Space) picture.pin();
      stopping = new AbortController();
      const steps: AsyncIterator<Step, Summary, void> = problem.solve({ ...now, signal: stopping.signal });
      for (;;) {
        const step = await steps.next();
        if (step.done) {
          shown.cost = step.value.finalCost;
          shown.status = step.value.status;
          if (picture instanceof Space && !picture.touched) {
            picture.refresh();
            picture.look();
          }
          const last = precisionOf(step.value.device);
          shown.last = now === dragged ? "" : ` after ${step.value.iterations} steps in ${
            step.value.seconds.toFixed(2)} s${
            last === precisionOf(problem.device) ? "" : `, the last in ${last}`}: ${step.value.message}`;
          break;
        }
        shown.cost = step.value.cost;
        shown.steps += 1;
        if (now === dragged) continue;
        refresh();
        if (next !== undefined) {
          await steps.return?.();
          break;
        }
      }
      if (now === dragged) {
        shown.solves += 1;
        shown.seconds += (performance.now() - begin) / 1000;
      }
      refresh();
    }
  } catch (what) {
    fail(what);
  }
  busy = false;
}

const at = (event: MouseEvent) => [event.offsetX * devicePixelRatio, event.offsetY * devicePixelRatio];
canvas.addEventListener("pointerdown", (event) => {
  if (!(picture instanceof Space)) return;
  canvas.setPointerCapture(event.pointerId);
  const [x, y] = at(event), vertex = picture.nearest(x, y);
  picture.touched = true;
  held = { x, y, vertex };
  shown.handle = vertex;
  if (vertex !== undefined) picture.grab(vertex);
  free.disabled = picture.handles.size === 0;
});
canvas.addEventListener("pointermove", (event) => {
  if (held === undefined || !(picture instanceof Space)) return;
  const [x, y] = at(event), dx = x - held.x, dy = y - held.y;
  held.x = x;
  held.y = y;
  if (held.vertex !== undefined) {
    picture.pull(held.vertex, dx, dy);
    solve(dragged);
    return;
  }
  if (picture.flat) {
    picture.shift[0] += dx;
    picture.shift[1] += dy;
  } else {
    picture.turn -= dx / (200 * devicePixelRatio);
    picture.tilt = Math.max(-1.5, Math.min(1.5, picture.tilt + dy / (200 * devicePixelRatio)));
  }
  draw();
});
for (const end of ["pointerup", "pointercancel"]) canvas.addEventListener(end, () => { held = undefined; });
canvas.addEventListener("wheel", (event) => {
  event.preventDefault();
  if (!(picture instanceof Space)) return;
  picture.touched = true;
  picture.zoom *= Math.exp(-event.deltaY / 500);
  draw();
}, { passive: false });
addEventListener("resize", draw);
addEventListener("dragover", (event) => event.preventDefault());
addEventListener("drop", async (event) => {
  event.preventDefault();
  const file = event.dataTransfer?.files[0];
  if (file === undefined || !(picture instanceof Curve)) return;
  try {
    const text = await file.text();
    await stop();
    picture.take(text);
    error = false;
    say(`${file.name}: ${picture.data.length / picture.columns} points. ${picture.hint}`);
    await solve({});
  } catch (what) {
    fail(what, file.name);
  }
});
element("solve", HTMLButtonElement).addEventListener("click", () => solve({}));
element("reset", HTMLButtonElement).addEventListener("click", async () => {
  await stop();
  if (picture instanceof Space) picture.release();
  for (const [name, values] of start) problem.set(name, values);
  shown.cost = problem.cost();
  shown.last = "";
  free.disabled = true;
  refresh();
});
free.addEventListener("click", async () => {
  await stop();
  if (picture instanceof Space) picture.release();
  free.disabled = true;
  solve({ reuseFactor: true });
});

try {
  const asked = new URLSearchParams(location.search), given = (name: string) => asked.get(name) ?? undefined;
  problem = await open(new URL("problem.bin", location.href),
                       // load() checks the names.
                       { device: given("device") as LoadOptions["device"],
                         precision: given("precision") as LoadOptions["precision"] });
  start = problem.arrays.map((name) => [name, problem.parameters(name)]);
  document.title = `${problem.name} – Topograd`;
  element("name", HTMLElement).textContent = problem.name;
  draw();  // sets the canvas's size
  picture = choosePicture();
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", `${problem.name}. ${picture.hint}`);
  introduce();
  free.hidden = !(picture instanceof Space);
  for (const id of ["solve", "reset"]) element(id, HTMLButtonElement).disabled = false;
  shown.cost = problem.cost();
  tell();  // sets the width of the numbers
  refresh();
  shown.ready = true;
  // While the visitor looks. A solve tells what fails.
  setTimeout(() => problem.prepare().catch(() => {}), 0);
} catch (what) {
  fail(what);
}
