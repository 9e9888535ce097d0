// Problems that the library has compiled, in a page or in Node: reads the folder that
// `topograd export web` wrote, and minimises the problem.
import { minimiseEnergies } from "./descent.js";
import { Energies } from "./energy.js";
import * as webgpu from "./gpu.js";
import { Model } from "./model.js";
import { Race } from "./place.js";
import { defaults } from "./rules.js";
import { Stepper, minimise, turnsOf } from "./solver.js";

const { DeviceError, DeviceIteration, System, findAdapter } = webgpu;

export class TopogradError extends Error {
  constructor(code, message) {
    super(message);
    this.name = "TopogradError";
    this.code = code;
  }
}
const fail = (code, message) => new TopogradError(code, message);

const fileVersion = 2;
const magic = "TGWEB\n";

async function read(url) {
  if (url.protocol === "file:") {
    const { readFile } = await import("node:fs/promises");
    const bytes = await readFile(url).catch((error) => { throw fail("file", error.message); });
    return bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength);
  }
  const answer = await fetch(url).catch((error) => { throw fail("file", `${url}: ${error.message}`); });
  if (!answer.ok) throw fail("file", `${url}: the server says ${answer.status}`);
  return answer.arrayBuffer();
}

function parse(bytes, url) {
  const start = new Uint8Array(bytes, 0, Math.min(bytes.byteLength, magic.length));
  if (String.fromCharCode(...start) !== magic || bytes.byteLength < 16)
    throw fail("file", `${url}: expected a file that topograd export web wrote`);
  const view = new DataView(bytes);
  const version = view.getUint32(8, true), length = view.getUint32(12, true);
  if (version !== fileVersion) {
    throw fail("version", `${url}: expected a file of version ${fileVersion}, got version ` +
                            `${version}: export the problem again, with the module beside it`);
  }
  if (16 + length > bytes.byteLength) throw fail("file", `${url}: the file is cut`);
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(bytes, 16, length)));
  return { header, body: 16 + length };
}

function summed(numbers, length) {
  for (let k = 0; k < numbers.length; ++k) if (k % length !== 0) numbers[k] += numbers[k - 1];
  return numbers;
}

/** Turns columns into rows. @param made of each column: which one it is, and what is added */
function byInstance(columns, instances, made) {
  const width = made?.length ?? columns.length / (instances || 1);
  const out = new columns.constructor(width * instances);
  for (let c = 0; c < width; ++c) {
    const [k, more] = made?.[c] ?? [c, 0];
    for (let i = 0, from = k * instances; i < instances; ++i, ++from)
      out[i * width + c] = more === 0 ? columns[from] : columns[from] + more;
  }
  return out;
}

function indicesOf({ index, instances }, count) {
  const stride = index.length / instances;
  return Uint32Array.from({ length: stride * count }, (_, k) => index[k % (stride * instances)]);
}

function checkNamed(name, value, known) {
  if (!known.includes(value)) throw fail("argument", `${name}: expected one of ${known.join(", ")}, got ${value}`);
}

/** Unknowns from which an adapter that is no program is used unasked, and most whose factor is tried. */
const leastUnknowns = 3000, mostRaced = 50000;

/**
 * The adapter to use, or why there is none.
 *
 * @returns {Promise<any>}
 */
async function choose(device, unknowns, hasEnergies, gpu) {
  if (device === "javascript") return { reason: "as asked for" };
  if (hasEnergies) {
    const reason = "energies are minimised in JavaScript";
    if (device === "webgpu") throw fail("device", reason);
    return { reason };
  }
  if (device === "automatic" && unknowns < leastUnknowns)
    return { reason: `the problem is small: ${unknowns} unknowns` };
  try {
    const found = await findAdapter(gpu);
    if (device === "automatic" && found.software)
      return { reason: `the adapter "${found.name}" is a program on the processor` };
    return { found, asked: device === "webgpu" };
  } catch (error) {
    if (device === "automatic" && error instanceof DeviceError) return { reason: error.message };
    throw error instanceof DeviceError ? fail(error.code, error.message) : error;
  }
}

const tooSlow = new DeviceError("device", "JavaScript is faster");

const isScalar = (term) => term.gradient !== undefined;

/** Kernels of linear functions have no argument for a vector. */
const withTangents = (kernel) =>
  kernel?.length === 4 ? (p, d, u, t, out) => kernel(p, d, u, out) : kernel;

/**
 * @param {string | URL} url
 * @param {import("./topograd.js").LoadOptions} [options]
 */
export async function load(url, options = {}) {
  const { device = "automatic", precision = "mixed", gpu } = options;
  checkNamed("device", device, ["automatic", "webgpu", "javascript"]);
  checkNamed("precision", precision, ["mixed", "f32"]);
  const here = typeof location === "undefined" ? undefined : location.href;
  let address;
  try {
    address = new URL(url, here);
  } catch {
    throw fail("argument", `expected an address of problem.bin, got "${url}"`);
  }
  if (address.pathname.endsWith("/")) address = new URL("problem.bin", address);
  const bytes = await read(address);
  const { header, body } = parse(bytes, address);
  const kernels = await import(new URL("kernels.js", address).href), hasEnergies = header.terms.some(isScalar);
  if (precision === "f32" && !hasEnergies && header.terms[0].shaders === undefined)
    throw fail("file", "problem.bin: no kernels of the precision f32: export the problem with --f32");
  const chosen = await choose(device, header.scalars, hasEnergies, gpu);
  if (chosen.found !== undefined && precision === "f32") {
    const { float32 } = await import(new URL("float32.js", address).href);
    chosen.float32 = await float32({ ...webgpu, Stepper }, address, read);
  }
  return new Problem(header, bytes, body, kernels, chosen);
}

const wholeOptions = ["maxIterations", "maxLinearIterations", "maxEscapes", "maxLbfgsRank"];
const others = ["signal", "reuseFactor"];
const namedOptions = {
  method: [],  // depends on the problem
  linearSolver: ["automatic", "factor", "cg"],
  forcing: ["automatic", "constant", "eisenstat_walker"],
};

/** Adds defaults, and refuses what is no option, and other methods than these. */
function resolve(given, ofProblem, methods) {
  for (const [name, value] of Object.entries(given)) {
    if (value === undefined || others.includes(name)) continue;
    const named = name === "method" ? methods : namedOptions[name];
    if (named !== undefined) {
      checkNamed(name, value, named);
    } else if (!(name in defaults)) {
      const known = new Set([...Object.keys(defaults), ...Object.keys(namedOptions), ...others]);
      throw fail("argument", `expected one of the options ${[...known].join(", ")}, got "${name}"`);
    } else if (typeof value !== "number" || !(value >= 0) ||
               (wholeOptions.includes(name) && !Number.isInteger(value))) {
      const kind = wholeOptions.includes(name) ? "a whole number" : "a number";
      throw fail("argument", `${name}: expected ${kind} >= 0, got ${value}`);
    }
  }
  const some = Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined));
  const all = { linearSolver: "automatic", forcing: "automatic", ...defaults, ...ofProblem, ...some };
  for (const name of ["initialTrustRegionRadius", "maxTrustRegionRadius", "linearTolerance"])
    if (!(all[name] > 0)) throw fail("argument", `${name}: expected a number > 0, got ${all[name]}`);
  return all;
}

/** topograd.d.ts describes its members. */
export class Problem {
  #header;
  #x;
  #constant;
  #pinned;
  #lower;
  #upper;
  #model;
  #order;
  #steppers = new Map();
  #solving = false;
  #writes;  // what callers have set since the last step of a solve, which has numbers of its own
  #revision = 0;  // of the numbers that callers change
  #found;  // the adapter; undefined: JavaScript computes
  #asked;  // WebGPU by name
  #float32;  // code of that precision
  #opening;  // a promise of the system
  #system;
  #race = new Race();  // of solves that keep a factor
  #hasEnergies;

  constructor(header, bytes, body, kernels, { found, reason, asked, float32 }) {
    const kernel = (name) => {
      if (typeof kernels[name] !== "function")
        throw fail("file", `kernels.js: no function ${name}: it belongs to another problem`);
      return kernels[name];
    };
    const numbers = (range, kind) => {
      const begin = body + range.at, end = begin + range.length * kind.BYTES_PER_ELEMENT;
      if (!(end <= bytes.byteLength)) throw fail("file", "problem.bin: the file is cut");
      return new kind(bytes.slice(begin, end));
    };
    const data = (range) => {
      if (range.codes === undefined) return numbers(range, Float64Array);
      const values = numbers(range.values, Float64Array), codes = numbers(range.codes, Uint32Array);
      return Float64Array.from(summed(codes, codes.length),
                               (code) => code % 2 === 1 ? -values[code >> 1] : values[code >> 1]);
    };
    const n = header.scalars;
    this.#header = header;
    this.name = header.name;
    this.#found = found;
    this.#asked = asked;
    this.#float32 = float32;
    this.device = found === undefined ? "JavaScript"
      : `WebGPU (${found.name}), ${float32 === undefined ? "mixed" : "f32"}`;
    this.reason = reason ?? "";
    this.arrays = header.arrays.map((array) => array.name);
    this.labels = header.terms.map((term) => term.name);
    this.faces = header.faces ? numbers(header.faces, Uint32Array) : new Uint32Array(0);
    this.#x = numbers(header.x, Float64Array);
    this.#constant = new Uint8Array(n);
    if (header.constant) this.#constant.set(numbers(header.constant, Uint32Array));
    this.#pinned = new Uint8Array(n);
    this.#order = header.order && numbers(header.order, Uint32Array);
    this.#hasEnergies = header.terms.some(isScalar);
    const optional = (name) => name === undefined ? undefined : kernel(name);
    const terms = header.terms.map((term) => ({
      ...term,
      cost: kernel(term.cost),
      jacobian: this.#hasEnergies ? optional(term.jacobian) : kernel(term.jacobian),
      gradient: optional(term.gradient),
      hessian: optional(term.hessian),
      hvp: withTangents(optional(term.hvp)),
      index: byInstance(summed(numbers(term.index, Uint32Array), term.instances), term.instances, term.columns),
      numbers: byInstance(data(term.numbers), term.instances),
    }));
    const manifolds = header.manifolds.map((one) => ({
      ...one,
      plus: kernel(one.plus),
      basis: kernel(one.basis),
      blocks: numbers(one.blocks, Uint32Array),
    }));
    this.#model = new Model({ scalars: n, arrays: header.arrays, terms, manifolds,
                              uniforms: numbers(header.uniforms, Float64Array) });
    this.#model.corrects = header.corrects === true;
    this.#model.isCurved = !this.#hasEnergies && terms.every((term) => term.hessian ?? term.hvp);
    this.#model.hasCorners = header.corners === true;
    if (header.lower) {
      this.#lower = numbers(header.lower, Float64Array);
      this.#upper = numbers(header.upper, Float64Array);
      this.#model.setBounds(this.#lower, this.#upper);
    }
  }

  #array(name) {
    const found = this.#header.arrays.find((array) => array.name === name);
    if (found === undefined)
      throw fail("argument", `expected one of the arrays ${this.arrays.join(", ")}, got "${name}"`);
    return found;
  }

  #block(name, block) {
    const array = this.#array(name);
    if (!Number.isInteger(block) || block < 0 || block >= array.blocks) {
      throw fail("argument", `expected a block of "${name}" from 0 to ${array.blocks - 1}, got ` +
                               `${block}`);
    }
    return { first: array.offset + block * array.width, width: array.width };
  }

  #term(label) {
    const found = this.#model.terms.find((term) => term.name === label);
    if (found === undefined) {
      throw fail("argument", `expected one of the arrays ${this.arrays.join(", ")} or residuals ` +
                               `${this.labels.join(", ")}, got "${label}"`);
    }
    return found;
  }

  #check(name, values, length) {
    if (values?.length !== length)
      throw fail("argument", `"${name}": expected ${length} numbers, got ${values?.length ?? values}`);
    for (let k = 0; k < length; ++k) {
      if (typeof values[k] !== "number" || !Number.isFinite(values[k]))
        throw fail("nonfinite", `"${name}": expected finite numbers, got ${values[k]} at ${k}`);
    }
  }

  #inBounds(name, first, values) {
    if (this.#lower === undefined) return;
    for (let k = 0; k < values.length; ++k) {
      const low = this.#lower[first + k], high = this.#upper[first + k];
      if (values[k] < low || values[k] > high) {
        throw fail("argument", `"${name}": number ${k} is ${values[k]}, outside its bounds ` +
                                 `[${low}, ${high}]`);
      }
    }
  }

  width(name) {
    return this.#array(name).width;
  }

  parameters(name) {
    const array = this.#array(name);
    return this.#x.slice(array.offset, array.offset + array.width * array.blocks);
  }

  data(label) {
    return this.#term(label).numbers.slice();
  }

  set(name, values) {
    const array = this.#header.arrays.find((one) => one.name === name);
    if (array === undefined) return this.#setData(name, values);
    this.#check(name, values, array.width * array.blocks);
    this.#inBounds(name, array.offset, values);
    this.#write(array.offset, values);
  }

  #write(first, values) {
    this.#x.set(values, first);
    this.#writes?.push([first, Float64Array.from(values)]);
    ++this.#revision;
  }

  #rewrite(to) {
    for (const [first, values] of this.#writes) to.set(values, first);
  }

  /** Takes over the numbers of each step, and keeps what the caller has set meanwhile. */
  async *#follow(steps, x) {
    for (;;) {
      const next = await steps.next();
      this.#x.set(x);
      this.#rewrite(this.#x);
      if (next.done) return next.value;
      yield next.value;
    }
  }

  /** True if all residuals with a label read the same unknowns, as those of a curve do. */
  #isCurve(term) {
    const { instances, index } = term, stride = index.length / instances;
    for (let k = stride; k < index.length; ++k) if (index[k] !== index[k - stride]) return false;
    return true;
  }

  /** Replaces the data of residuals; those of a curve may be of any number. */
  #setData(name, values) {
    const term = this.#term(name), { data, instances } = term;
    const count = values?.length / data;
    const other = count !== instances && count > 0 && Number.isInteger(count) && this.#isCurve(term);
    this.#check(name, values, other ? values.length : term.numbers.length);
    if (other && this.#solving) throw fail("busy", `"${name}": the problem is being solved`);
    term.numbers = Float64Array.from(values);
    ++this.#revision;
    if (!other) return;
    term.index = indicesOf(term, count);
    term.instances = count;
    this.#close();
    this.#steppers.clear();
  }

  residuals(label, data) {
    const term = this.#term(label), rows = term.rows;
    let numbers = term.numbers, instances = term.instances;
    if (data !== undefined) {
      instances = data.length / term.data;
      const most = this.#isCurve(term) && Number.isInteger(instances) ? data.length : numbers.length;
      this.#check(label, data, most);
      numbers = Float64Array.from(data);
    }
    const out = new Float64Array(rows * instances), index = indicesOf(term, instances);
    const kernel = term.jacobian ?? term.cost;
    this.#model.each({ ...term, instances, index, numbers }, this.#x, kernel,
                     term.jacobian === undefined ? 1 : rows * (1 + term.parameters),
                     (values, i) => out.set(values.subarray(0, rows), i * rows));
    return out;
  }

  links(name) {
    const { offset, width, blocks } = this.#array(name), found = new Set();
    for (const { instances, parameters, index } of this.#model.terms) {
      const stride = index.length / instances;
      for (let i = 0; i < instances; ++i) {
        const met = new Set();
        for (let s = 0; s < parameters; ++s) {
          const k = index[i * stride + s] - offset;
          if (k >= 0 && k < width * blocks) met.add(Math.floor(k / width));
        }
        if (met.size !== 2) continue;
        const [a, b] = met;
        found.add(Math.min(a, b) * blocks + Math.max(a, b));
      }
    }
    return Uint32Array.from([...found].flatMap((k) => [Math.floor(k / blocks), k % blocks]));
  }

  pin(name, block, values) {
    const { first, width } = this.#block(name, block);
    this.#check(name, values, width);
    this.#inBounds(name, first, values);
    this.#write(first, values);
    this.#pinned.fill(1, first, first + width);
  }

  release(name, block) {
    const { first, width } = this.#block(name, block);
    this.#pinned.fill(0, first, first + width);
    ++this.#revision;
  }

  cost() {
    return this.#model.cost(this.#x);
  }

  get #methods() {
    if (!this.#hasEnergies) return ["levenberg_marquardt", "gauss_newton"];
    const second = this.#model.terms.every((term) => (term.hessian ?? term.hvp) !== undefined);
    return second ? ["newton", "lbfgs"] : ["lbfgs"];
  }

  #energiesFor({ linearSolver }) {
    if (this.#steppers.size === 0) this.#model.free(this.#constant);
    if (!this.#steppers.has(linearSolver))
      this.#steppers.set(linearSolver, new Energies(this.#model, linearSolver, this.#order));
    return this.#steppers.get(linearSolver);
  }

  /** The stepper for a linear solver, whose analysis serves all solves. */
  async #stepperFor(options, isFine = false) {
    const onDevice = this.#found !== undefined && options.linearSolver !== "factor";
    const name = !onDevice ? options.linearSolver : this.#float32 === undefined || isFine ? "device" : "f32";
    if (this.#steppers.size === 0) this.#model.free(this.#constant);
    const known = this.#steppers.get(name);
    if (known !== undefined) return known;
    if (!onDevice) return this.#keep(name, options);
    try {
      const model = this.#model;
      if (this.#system === undefined) {
        const opening = this.#opening ??= this.#open();
        const opened = await opening;
        if (opening !== this.#opening) {  // it was closed meanwhile
          opened.device.destroy();
          return this.#stepperFor(options, isFine);
        }
        this.#system = opened;
      }
      if (name === "device") return this.#keep(name, options, new DeviceIteration(model, this.#system));
      const made = new this.#float32.Float32Stepper(model, options, this.faces.length > 0, this.#system);
      this.#steppers.set(name, made);
      return made;
    } catch (error) {
      if (this.#asked && error instanceof DeviceError) throw fail(error.code, error.message);
      this.#leave(error);
      return this.#stepperFor(options);
    }
  }

  async #open() {
    const made = new (this.#float32?.Float32System ?? System)(this.#model);
    return made.open(await findAdapter(this.#found.gpu));
  }

  async prepare() {
    const all = resolve({}, this.#header.options, this.#methods);
    await (this.#hasEnergies ? this.#energiesFor(all) : this.#stepperFor(all));
  }

  #keep(name, options, iteration) {
    const made = new Stepper(this.#model, options, this.#order, this.faces.length > 0, iteration);
    this.#steppers.set(name, made);
    return made;
  }

  /** Goes on in JavaScript after an error of the device; throws any other one. */
  #leave(error) {
    if (!(error instanceof DeviceError)) throw error;
    this.#close();
    this.#found = undefined;
    this.device = "JavaScript";
    this.reason = error.message;
  }

  close() {
    if (this.#solving) throw fail("busy", "the problem is being solved; end that solve first");
    this.#close();
  }

  #close() {
    this.#system?.device.destroy();
    this.#system = this.#opening = undefined;
    this.#steppers.delete("device");
    this.#steppers.delete("f32");
  }

  /** Where a solve that keeps a factor runs: "javascript" or "device"; undefined for others. */
  async #placeOf(options) {
    const { reuseFactor, linearSolver } = options;
    if (this.#found === undefined || reuseFactor !== true || linearSolver !== "automatic" ||
        this.#x.length > mostRaced)
      return undefined;
    const { isDear } = await this.#stepperFor({ ...options, linearSolver: "factor" });
    return isDear ? undefined : this.#race.next;
  }

  /** Gives a trial on the device up after its time. */
  #limitTrial(options) {
    const { signal } = options, end = performance.now() + 1000 * this.#race.limit(options.maxIterations);
    this.#system.expect(0);
    options.signal = {
      get aborted() {
        if (options.linearSolver !== "factor" && performance.now() > end) throw tooSlow;
        return signal?.aborted === true;
      },
    };
  }

  async *solve(options = {}) {
    const all = resolve(options, this.#header.options, this.#methods);
    if (this.#solving) throw fail("busy", "the problem is being solved; end that solve first");
    this.#solving = true;
    this.#writes = [];
    try {
      let seen;
      const x = this.#x.slice();
      const changed = (stepper) => {
        if (seen?.revision === this.#revision && seen.stepper === stepper) return false;
        seen = { revision: this.#revision, stepper };
        this.#rewrite(x);
        this.#writes = [];
        stepper.begin(all, this.#pinned);
        return true;
      };
      if (this.#hasEnergies) {
        return yield* this.#follow(
          minimiseEnergies(this.#energiesFor(all), x, all, changed, turnsOf(all.signal), fail), x);
      }
      let place = await this.#placeOf(all);
      if (place === "javascript") all.linearSolver = "factor";
      const stepper = await this.#stepperFor(all);
      if (place === "device") this.#limitTrial(all);
      const instead = (error) => {
        if (error === tooSlow) {
          this.#race.took(place, Infinity, 1);
          this.reason = this.#race.reason;
          place = undefined;
          all.linearSolver = "factor";
        } else {
          this.#leave(error);
        }
        return this.#steppers.get(all.linearSolver) ?? this.#keep(all.linearSolver, all);
      };
      const summary = yield* this.#follow(
        minimise(stepper, x, all, changed, instead, () => this.#stepperFor(all, true), fail), x);
      if (place !== undefined && this.#found !== undefined && summary.status !== "aborted") {
        this.#race.took(place, summary.seconds, summary.iterations);
        this.reason = this.#race.reason;
      }
      return summary;
    } finally {
      this.#solving = false;
      this.#writes = undefined;
    }
  }

  async minimize(options = {}) {
    const steps = this.solve(options);
    for (;;) {
      const next = await steps.next();
      if (next.done) return next.value;
    }
  }
}
