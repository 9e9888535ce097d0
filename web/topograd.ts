// Problems that the library has compiled, in a page or in Node: reads the folder that
// `topograd export web` wrote, and minimises the problem.
import { minimiseEnergies } from "./descent.js";
import { Energies } from "./energy.js";
import type { Float32, float32 } from "./f32/float32.js";
import * as webgpu from "./gpu.js";
import {
  type EnergyTerm, type Instances, type Kernel, Model, type ParameterArray, type ResidualTerm, type TangentKernel,
  type Term,
} from "./model.js";
import { type Place, Race } from "./place.js";
import { type Options, defaults, noPoint, noStep } from "./rules.js";
import { Stepper, minimise, turnsOf } from "./solver.js";

const { DeviceError, DeviceIteration, System, findAdapter } = webgpu;

/** A failure that a caller can tell from others by its code. */
export class TopogradError extends Error {
  /**
   * - `file`: a file cannot be read, is cut, or belongs to another problem
   * - `version`: the file was written for another version of the module
   * - `argument`: a name, a number or an option is wrong
   * - `nonfinite`: a number, the cost of the start or a derivative there is NaN or infinite
   * - `busy`: the problem is being solved
   * - `adapter`: WebGPU was asked for by name, and is not there or has no adapter
   * - `limit`: it was asked for by name, and the adapter allows no buffers of the problem's size
   * - `device`: it was asked for by name, and its device does not open, or the problem has energies
   */
  readonly code: "file" | "version" | "argument" | "nonfinite" | "busy" | "adapter" | "limit" | "device";

  constructor(code: TopogradError["code"], message: string) {
    super(message);
    this.name = "TopogradError";
    this.code = code;
  }
}
const fail = (code: TopogradError["code"], message: string) => new TopogradError(code, message);

/**
 * Options of a solve. Defaults are those that the problem was exported with. They mean what
 * SolverOptions of the library mean.
 */
export interface SolveOptions {
  /**
   * For residuals alone: `gauss_newton` tries an undamped step first at every point. For problems with
   * energies: `lbfgs`, and `newton` where the export has second derivatives.
   */
  method?: "levenberg_marquardt" | "gauss_newton" | "newton" | "lbfgs";
  /** Accepted and rejected steps. */
  maxIterations?: number;
  timeLimitSeconds?: number;
  /** Change of the cost by a step, relative to the cost, at which a solve ends. */
  functionTolerance?: number;
  /** Largest cosine between the residuals and a column of the Jacobian at which a solve ends. */
  gradientTolerance?: number;
  /** Size of a step, in units of the residuals and relative to them, at which a solve ends. */
  parameterTolerance?: number;
  initialTrustRegionRadius?: number;
  minTrustRegionRadius?: number;
  maxTrustRegionRadius?: number;
  /** Actual over predicted decrease above which a step is accepted. */
  minRelativeDecrease?: number;
  minLmDiagonal?: number;
  maxLmDiagonal?: number;
  /**
   * `factor`: a sparse factor of the normal equations; `cg`: conjugate gradients, preconditioned
   * by blocks; `automatic`: a factor unless it is dear.
   */
  linearSolver?: "automatic" | "factor" | "cg";
  /**
   * Steps by conjugate gradients with the factor of an earlier step or solve, as exact as
   * `linearTolerance`: for short solves one after the other, while a handle is dragged. With WebGPU
   * they run there or in JavaScript, where they are measured to be faster.
   */
  reuseFactor?: boolean;
  /** How exactly `cg` solves; `automatic` follows the gradient on meshes where `cg` is not asked for. */
  forcing?: "automatic" | "constant" | "eisenstat_walker";
  /** Residual of the normal equations, relative to the gradient, at which `cg` stops. */
  linearTolerance?: number;
  /** Iterations of `cg` in one step. */
  maxLinearIterations?: number;
  /** Energies: how often a solve goes on from a point where it converged that is no minimum. */
  maxEscapes?: number;
  /** Steps that `lbfgs` remembers. */
  maxLbfgsRank?: number;
  /** Ends the solve at the last accepted point. */
  signal?: AbortSignal;
}

/** One step of a solve, after its decision. */
export interface Step {
  iteration: number;
  /** At the last accepted point. */
  cost: number;
  accepted: boolean;
  /** Largest component of the gradient. */
  gradient: number;
  /** Of the trust region; for `newton` and `lbfgs` the length of the step along its direction. */
  radius: number;
  linearIterations: number;
  seconds: number;
}

export interface Summary {
  status: "convergence" | "no_convergence" | "failure" | "aborted";
  message: string;
  iterations: number;
  linearIterations: number;
  initialCost: number;
  finalCost: number;
  seconds: number;
  /** As Problem.device, at the end of the solve. */
  device: string;
  linearSolver: "factor" | "cg" | "none";
}

export interface LoadOptions {
  /**
   * `webgpu` solves for steps by conjugate gradients on the device in float32, refined in float64; all
   * else is JavaScript's, as are solves with `linearSolver: "factor"`. `automatic` takes WebGPU for
   * 3,000 unknowns or more on an adapter that is no program on the processor.
   */
  device?: "automatic" | "webgpu" | "javascript";
  /**
   * On WebGPU: `f32` takes whole steps on the device in float32 until they end, and float64 goes on as
   * `mixed`; the folder must have been exported with `--f32`.
   */
  precision?: "mixed" | "f32";
  /** The entry to WebGPU; otherwise navigator.gpu, and in Node the package `webgpu`. */
  gpu?: unknown;
}

const fileVersion = 2;
const magic = "TGWEB\n";

/** Numbers in problem.bin: their place after the header, and how many there are. */
interface Range {
  readonly at: number;
  readonly length: number;
}
/** Numbers as a table of values and differences of indices in it, whose last bit is the sign. */
interface Coded {
  readonly values: Range;
  readonly codes: Range;
}
interface TermHeader {
  readonly name: string;
  readonly rows: number;
  readonly instances: number;
  readonly parameters: number;
  readonly data: number;
  readonly uniforms: number;
  /** Names of functions in kernels.js. */
  readonly cost: string;
  readonly jacobian?: string;
  readonly gradient?: string;
  readonly hessian?: string;
  readonly hvp?: string;
  /** For each column of indices: which stored one it is, and what is added to that. */
  readonly columns?: Columns;
  readonly index: Range;
  readonly numbers: Range | Coded;
  readonly shaders?: Term["shaders"];
}
type Columns = readonly (readonly [column: number, added: number])[];
/** The header of problem.bin, as api/export_web.cpp writes it. */
interface Header {
  readonly name: string;
  readonly scalars: number;
  readonly arrays: readonly ParameterArray[];
  readonly terms: readonly TermHeader[];
  readonly manifolds: readonly {
    readonly width: number; readonly tangent: number; readonly plus: string; readonly basis: string;
    readonly blocks: Range; readonly shaders?: { readonly plus: string[]; readonly basis: string[] };
  }[];
  readonly x: Range;
  readonly uniforms: Range;
  readonly constant?: Range;
  readonly lower?: Range;
  readonly upper?: Range;
  readonly faces?: Range;
  readonly order?: Range;
  readonly corrects?: boolean;
  readonly corners?: boolean;
  readonly options: Partial<Options>;
}
/** The functions of kernels.js. */
type Kernels = Readonly<Record<string, Kernel | undefined>>;

async function read(url: URL): Promise<ArrayBuffer> {
  if (url.protocol === "file:") {
    const { readFile } = await import("node:fs/promises");
    const bytes = await readFile(url).catch((error: Error) => { throw fail("file", error.message); });
    return bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength);
  }
  const answer = await fetch(url).catch((error: Error) => { throw fail("file", `${url}: ${error.message}`); });
  if (!answer.ok) throw fail("file", `${url}: the server says ${answer.status}`);
  return answer.arrayBuffer();
}

/** Returns work(); any error of the language there says that a file is damaged. */
function reading<A>(file: string | URL, work: () => A): A {
  try {
    return work();
  } catch (error) {
    if (error instanceof TopogradError) throw error;
    throw damaged(file, error);
  }
}
function damaged(file: string | URL, why: unknown): TopogradError {
  const text = why instanceof Error ? why.message : String(why);
  return fail("file", `${file}: the file is damaged (${text}): export the problem again`);
}

const sumStart = '{"checksum":"', sumDigits = 8;
/** Checks the sum over all bytes but its own, FNV-1a, if the header begins with one. */
function checkSum(bytes: Uint8Array, header: string, url: URL): void {
  if (!header.startsWith(sumStart)) return;
  const begin = 16 + sumStart.length, end = begin + sumDigits;
  let sum = 2166136261;
  for (let k = 0; k < bytes.length; ++k) if (k < begin || k >= end) sum = Math.imul(sum ^ bytes[k], 16777619);
  const found = (sum >>> 0).toString(16).padStart(sumDigits, "0");
  const expected = header.slice(sumStart.length, sumStart.length + sumDigits);
  if (found !== expected) throw damaged(url, `expected the checksum ${expected}, got ${found}`);
}

/** Checks what kernels read by: places of unknowns and uniforms. */
function checkPlaces(model: Model, file: string): void {
  const check = (isThere: boolean, what: string) => {
    if (!isThere) throw damaged(file, what);
  };
  const isBelow = (places: ArrayLike<number>, count: number) => Array.prototype.every.call(places, (k) => k < count);
  const { n, arrays, terms, manifolds, uniforms, bounds } = model;
  const sizes = arrays.flatMap(({ offset, width, blocks }) => [offset, width, blocks]);
  check(sizes.every((size) => Number.isInteger(size) && size >= 0), "sizes of arrays");
  let end = 0;
  for (const { offset, width, blocks } of arrays) {
    check(offset === end, "arrays do not follow one another");
    end = offset + width * blocks;
  }
  check(end === n, "arrays have another number of unknowns than the problem");
  for (const { name, instances, parameters, uniforms: count, data, rows, index, numbers } of terms) {
    const stride = parameters + count, whole = [instances, parameters, count, data, rows].every(Number.isInteger);
    const fits = index.length === stride * instances && numbers.length === data * instances;
    check(whole && fits, `sizes of "${name}"`);
    const isPlaced = index.every((k, i) => k < (i % stride < parameters ? n : uniforms.length));
    check(isPlaced, `indices of "${name}"`);
  }
  for (const { width, tangent, blocks } of manifolds)
    check(tangent <= width && isBelow(blocks, n - width + 1), "blocks on manifolds");
  check(bounds === undefined || (bounds.lower.length === n && bounds.upper.length === n), "bounds");
}

function parse(bytes: ArrayBuffer, url: URL): { header: Header; body: number } {
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
  const text = new TextDecoder().decode(new Uint8Array(bytes, 16, length));
  checkSum(new Uint8Array(bytes), text, url);
  return { header: reading(url, () => JSON.parse(text)), body: 16 + length };
}

function summed(numbers: Uint32Array, length: number): Uint32Array {
  for (let k = 0; k < numbers.length; ++k) if (k % length !== 0) numbers[k] += numbers[k - 1];
  return numbers;
}

/** Turns columns into rows. @param made of each column: which one it is, and what is added */
function byInstance<A extends Uint32Array | Float64Array>(
    columns: A, instances: number, make: new (length: number) => A, made?: Columns): A {
  const width = made?.length ?? columns.length / (instances || 1);
  const out = new make(width * instances);
  for (let c = 0; c < width; ++c) {
    const [k, more] = made?.[c] ?? [c, 0];
    for (let i = 0, from = k * instances; i < instances; ++i, ++from)
      out[i * width + c] = more === 0 ? columns[from] : columns[from] + more;
  }
  return out;
}

function indicesOf({ index, instances }: Instances, count: number): Uint32Array {
  const stride = index.length / instances;
  return Uint32Array.from({ length: stride * count }, (_, k) => index[k % (stride * instances)]);
}

function checkNamed(name: string, value: unknown, known: readonly unknown[]): void {
  if (!known.includes(value)) throw fail("argument", `${name}: expected one of ${known.join(", ")}, got ${value}`);
}

/** Unknowns from which an adapter that is no program is used unasked, and most whose factor is tried. */
const leastUnknowns = 3000, mostRaced = 50000;

/** The adapter to use, or why there is none. `asked`: by name; `float32`: code of that precision. */
type Chosen = { readonly found: webgpu.Found; readonly asked: boolean; readonly float32?: Float32 } |
  { readonly found?: undefined; readonly reason: string };

async function choose(device: LoadOptions["device"], unknowns: number, hasEnergies: boolean,
                      gpu: GPU | undefined): Promise<Chosen> {
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

const isScalar = (term: TermHeader) => term.gradient !== undefined;

/** Kernels of linear functions have no argument for a vector. */
const withTangents = (kernel: Kernel | TangentKernel): TangentKernel =>
  takesNoTangent(kernel) ? (p, d, u, _t, out) => kernel(p, d, u, out) : kernel;
const takesNoTangent = (kernel: Kernel | TangentKernel): kernel is Kernel => kernel.length === 4;

/**
 * Loads the problem of an exported folder.
 *
 * @param url the folder, with a slash at its end, or the file problem.bin in it; kernels.js lies
 *   beside that. In a page, relative addresses are those of the page.
 */
export async function load(url: string | URL, options: LoadOptions = {}): Promise<Problem> {
  for (const [name] of entriesOf(options)) checkKnown(name, ["device", "precision", "gpu"]);
  const { device = "automatic", precision = "mixed" } = options;
  checkNamed("device", device, ["automatic", "webgpu", "javascript"]);
  checkNamed("precision", precision, ["mixed", "f32"]);
  const here = typeof location === "undefined" ? undefined : location.href;
  let address: URL;
  try {
    address = new URL(url, here);
  } catch {
    throw fail("argument", `expected an address of problem.bin, got "${url}"`);
  }
  if (address.pathname.endsWith("/")) address = new URL("problem.bin", address);
  const bytes = await read(address);
  const { header, body } = parse(bytes, address);
  const code = new URL("kernels.js", address);
  const kernels: Kernels = await import(code.href).catch((error: Error) => {
    throw fail("file", `${code}: the module cannot be loaded (${error.message})`);
  });
  const { hasEnergies, hasShaders } = reading(address, () => ({
    hasEnergies: header.terms.some(isScalar), hasShaders: header.terms[0].shaders !== undefined }));
  if (precision === "f32" && !hasEnergies && !hasShaders)
    throw fail("file", "problem.bin: no kernels of the precision f32: export the problem with --f32");
  const make = (how: Chosen) => reading(address, () => Problem.make(header, bytes, body, kernels, how));
  const chosen = await choose(device, header.scalars, hasEnergies, options.gpu as GPU | undefined);
  if (chosen.found === undefined || precision !== "f32") return make(chosen);
  const steps: { float32: typeof float32 } = await import(new URL("float32.js", address).href);
  const made = await steps.float32({ ...webgpu, Stepper, noPoint, noStep }, address, read);
  return make({ ...chosen, float32: made });
}

type NumericOption = Exclude<keyof typeof defaults, "method" | "signal" | "reuseFactor">;
/** Numbers that an option may be; those of the library's option_table.cpp. */
interface Interval {
  readonly isWhole?: boolean;
  /** Another option is the least one. */
  readonly least: number | NumericOption;
  readonly isOpen?: boolean;  // without the least one
  readonly isBelowOne?: boolean;
}
const atLeastZero: Interval = { least: 0 }, positive: Interval = { least: 0, isOpen: true };
const ranges: Readonly<Record<NumericOption, Interval>> = {
  maxIterations: { least: 0, isWhole: true },
  timeLimitSeconds: positive,
  functionTolerance: atLeastZero,
  gradientTolerance: atLeastZero,
  parameterTolerance: atLeastZero,
  initialTrustRegionRadius: positive,
  minTrustRegionRadius: positive,
  maxTrustRegionRadius: { least: "minTrustRegionRadius" },
  minRelativeDecrease: { least: 0, isBelowOne: true },
  minLmDiagonal: atLeastZero,
  maxLmDiagonal: { least: "minLmDiagonal" },
  linearTolerance: { least: 0, isOpen: true, isBelowOne: true },
  maxLinearIterations: { least: 1, isWhole: true },
  maxEscapes: { least: 0, isWhole: true },
  maxLbfgsRank: { least: 1, isWhole: true },
};

function checkNumber(name: NumericOption, value: unknown, all: Options): void {
  const { isWhole = false, least: by, isOpen = false, isBelowOne = false } = ranges[name];
  const least = typeof by === "number" ? by : all[by], isFinite = typeof by !== "number" || Number.isFinite(value);
  if (typeof value === "number" && isFinite && (isOpen ? value > least : value >= least) &&
      (!isBelowOne || value < 1) && (!isWhole || Number.isInteger(value)))
    return;
  const kind = isWhole ? "a whole number" : typeof by !== "number" || isBelowOne ? "a number" : "a finite number";
  const place = isBelowOne ? `in ${isOpen ? "(" : "["}${least}, 1)`
    : `${isOpen ? ">" : ">="} ${typeof by === "number" ? by : `${by} (${least})`}`;
  throw fail("argument", `${name}: expected ${kind} ${place}, got ${value}`);
}
const isNumeric = (name: string): name is NumericOption => Object.hasOwn(ranges, name);

/** The options that an object has. */
function entriesOf(options: unknown): [string, unknown][] {
  if (typeof options !== "object" || options === null)
    throw fail("argument", `options: expected an object, got ${String(options)}`);
  return Object.entries(options);
}
function checkKnown(name: string, known: readonly string[]): void {
  if (!known.includes(name))
    throw fail("argument", `expected one of the options ${known.join(", ")}, got "${name}"`);
}

/** Options without a default. */
const others: Readonly<Record<Exclude<keyof SolveOptions, keyof typeof defaults | "linearSolver" | "forcing">, true>> =
  { signal: true, reuseFactor: true };
const namedOptions: Readonly<Record<string, readonly string[] | undefined>> = {
  method: [],  // depends on the problem
  linearSolver: ["automatic", "factor", "cg"],
  forcing: ["automatic", "constant", "eisenstat_walker"],
};

/** Adds defaults, and refuses what is no option or out of range, and other methods than these. */
function resolve(given: SolveOptions, ofProblem: Partial<Options>, methods: readonly string[]): Options {
  const entries = entriesOf(given).filter(([, value]) => value !== undefined);
  const some: SolveOptions = Object.fromEntries(entries);
  const all: Options = { linearSolver: "automatic", forcing: "automatic", ...defaults, ...ofProblem, ...some };
  const known = [...new Set([...Object.keys(defaults), ...Object.keys(namedOptions), ...Object.keys(others)])];
  for (const [name, value] of entries) {
    checkKnown(name, known);
    if (name === "reuseFactor" && typeof value !== "boolean")
      throw fail("argument", `${name}: expected true or false, got ${String(value)}`);
    if (name === "signal" && !(typeof value === "object" && value !== null && "aborted" in value))
      throw fail("argument", `${name}: expected an AbortSignal, got ${String(value)}`);
    const named = name === "method" ? methods : namedOptions[name];
    if (named !== undefined) checkNamed(name, value, named);
  }
  for (const name of Object.keys(ranges)) if (isNumeric(name)) checkNumber(name, all[name], all);
  return all;
}

/** A problem and its present point. */
export class Problem {
  readonly name: string;
  #device: string;
  #reason: string;
  /** Names of the arrays of unknowns. */
  readonly arrays: string[];
  /** Labels of the residuals and energies. */
  readonly labels: string[];
  /** Triangles of the mesh whose vertices are the blocks of the first array; may be empty. */
  readonly faces: Uint32Array;

  readonly #header: Header;
  readonly #x: Float64Array;
  readonly #constant: Uint8Array;
  readonly #pinned: Uint8Array;
  readonly #kind: { readonly hasEnergies: true; readonly model: Model<EnergyTerm> } |
    { readonly hasEnergies: false; readonly model: Model<ResidualTerm> };
  readonly #order: Uint32Array | undefined;
  readonly #steppers = new Map<string, Stepper>();
  readonly #energies = new Map<string, Energies>();
  #solving = false;
  // Numbers that callers have set since the last step of a solve, which has its own.
  #writes: [first: number, values: Float64Array][] = [];
  #revision = 0;  // of the numbers that callers change
  #found: webgpu.Found | undefined;  // the adapter; undefined: JavaScript computes
  readonly #asked: boolean;  // WebGPU by name
  readonly #float32: Float32 | undefined;  // code of that precision
  #opening: Promise<webgpu.System> | undefined;
  #system: webgpu.System | undefined;
  readonly #race = new Race();  // of solves that keep a factor

  /** @internal */
  static make(...parts: [Header, ArrayBuffer, number, Kernels, Chosen]): Problem {
    return new Problem(...parts);
  }

  private constructor(header: Header, bytes: ArrayBuffer, body: number, kernels: Kernels, chosen: Chosen) {
    const kernel = (name: string | undefined) => {
      const found = name === undefined ? undefined : kernels[name];
      if (typeof found !== "function")
        throw fail("file", `kernels.js: no function ${name}: it belongs to another problem`);
      return found;
    };
    const numbers = <A>(range: Range, kind: { new (buffer: ArrayBuffer): A; BYTES_PER_ELEMENT: number }) => {
      const begin = body + range.at, end = begin + range.length * kind.BYTES_PER_ELEMENT;
      if (!(range.at >= 0 && end >= begin && end <= bytes.byteLength)) throw fail("file", "problem.bin: the file is cut");
      return new kind(bytes.slice(begin, end));
    };
    const data = (range: Range | Coded) => {
      if (!("codes" in range)) return numbers(range, Float64Array);
      const values = numbers(range.values, Float64Array), codes = numbers(range.codes, Uint32Array);
      return Float64Array.from(summed(codes, codes.length),
                               (code) => code % 2 === 1 ? -values[code >> 1] : values[code >> 1]);
    };
    const n = header.scalars;
    this.#header = header;
    this.name = header.name;
    this.#found = chosen.found;
    this.#asked = chosen.found !== undefined && chosen.asked;
    this.#float32 = chosen.found === undefined ? undefined : chosen.float32;
    this.#device = chosen.found === undefined ? "JavaScript"
      : `WebGPU (${chosen.found.name}), ${chosen.float32 === undefined ? "mixed" : "f32"}`;
    this.#reason = chosen.found === undefined ? chosen.reason : "";
    this.arrays = header.arrays.map((array) => array.name);
    this.labels = header.terms.map((term) => term.name);
    this.faces = header.faces ? numbers(header.faces, Uint32Array) : new Uint32Array(0);
    this.#x = numbers(header.x, Float64Array);
    this.#constant = new Uint8Array(n);
    if (header.constant) this.#constant.set(numbers(header.constant, Uint32Array));
    this.#pinned = new Uint8Array(n);
    this.#order = header.order && numbers(header.order, Uint32Array);
    const common = (term: TermHeader) => ({
      ...term,
      cost: kernel(term.cost),
      hessian: term.hessian === undefined ? undefined : kernel(term.hessian),
      hvp: term.hvp === undefined ? undefined : withTangents(kernel(term.hvp)),
      index: byInstance(summed(numbers(term.index, Uint32Array), term.instances), term.instances, Uint32Array,
                        term.columns),
      numbers: byInstance(data(term.numbers), term.instances, Float64Array),
    });
    const manifolds = header.manifolds.map((one) => ({
      ...one,
      plus: kernel(one.plus),
      basis: kernel(one.basis),
      blocks: numbers(one.blocks, Uint32Array),
    }));
    const rest = { scalars: n, arrays: header.arrays, manifolds, uniforms: numbers(header.uniforms, Float64Array) };
    if (header.terms.some(isScalar)) {
      const terms = header.terms.map((term): EnergyTerm => ({
        ...common(term), jacobian: term.jacobian === undefined ? undefined : kernel(term.jacobian),
        gradient: kernel(term.gradient),
      }));
      this.#kind = { hasEnergies: true, model: new Model({ ...rest, terms }) };
    } else {
      const terms = header.terms.map((term): ResidualTerm =>
        ({ ...common(term), jacobian: kernel(term.jacobian) }));
      this.#kind = { hasEnergies: false, model: new Model({ ...rest, terms }) };
      this.#model.isCurved = terms.every((term) => term.hessian ?? term.hvp);
    }
    this.#model.corrects = header.corrects === true;
    this.#model.hasCorners = header.corners === true;
    if (header.lower && header.upper)
      this.#model.bounds = { lower: numbers(header.lower, Float64Array), upper: numbers(header.upper, Float64Array) };
    checkPlaces(this.#model, "problem.bin");
    if (this.#x.length !== n) throw damaged("problem.bin", "another number of unknowns");
  }

  get #model(): Model {
    return this.#kind.model;
  }

  /** What computes: `JavaScript`, or WebGPU with its adapter and precision. */
  get device(): string {
    return this.#device;
  }

  /** Why JavaScript computes, or solves with `reuseFactor`; else empty with WebGPU. Names a lost device. */
  get reason(): string {
    return this.#reason;
  }

  #array(name: string): ParameterArray {
    const found = this.#header.arrays.find((array) => array.name === name);
    if (found === undefined)
      throw fail("argument", `expected one of the arrays ${this.arrays.join(", ")}, got "${name}"`);
    return found;
  }

  #block(name: string, block: number): { first: number; width: number } {
    const array = this.#array(name);
    if (!Number.isInteger(block) || block < 0 || block >= array.blocks) {
      throw fail("argument", `expected a block of "${name}" from 0 to ${array.blocks - 1}, got ` +
                               `${block}`);
    }
    return { first: array.offset + block * array.width, width: array.width };
  }

  #term(label: string): Term {
    const found = this.#model.terms.find((term) => term.name === label);
    if (found === undefined) {
      throw fail("argument", `expected one of the arrays ${this.arrays.join(", ")} or residuals ` +
                               `${this.labels.join(", ")}, got "${label}"`);
    }
    return found;
  }

  #check(name: string, values: ArrayLike<number>, length: number): void {
    if (values?.length !== length)
      throw fail("argument", `"${name}": expected ${length} numbers, got ${values?.length ?? values}`);
    for (let k = 0; k < length; ++k) {
      if (typeof values[k] !== "number" || !Number.isFinite(values[k]))
        throw fail("nonfinite", `"${name}": expected finite numbers, got ${values[k]} at ${k}`);
    }
  }

  #inBounds(name: string, first: number, values: ArrayLike<number>): void {
    const { bounds } = this.#model;
    if (bounds === undefined) return;
    for (let k = 0; k < values.length; ++k) {
      const low = bounds.lower[first + k], high = bounds.upper[first + k];
      if (values[k] < low || values[k] > high) {
        throw fail("argument", `"${name}": number ${k} is ${values[k]}, outside its bounds ` +
                                 `[${low}, ${high}]`);
      }
    }
  }

  /** Refuses blocks which are no points of their manifolds: some direction there does not move them. */
  #onManifolds(name: string, first: number, width: number, values: ArrayLike<number>): void {
    for (const { width: size, tangent, basis, blocks } of this.#model.manifolds) {
      const directions = new Float64Array(size * size);
      for (const at of blocks) {
        if (at < first || at >= first + values.length) continue;
        const block = Float64Array.from({ length: size }, (_, k) => values[at - first + k]);
        basis(block, new Float64Array(0), new Float64Array(0), directions);
        for (let t = 0; t < tangent; ++t) {
          const direction = directions.filter((_, k) => k % size === t);
          if (direction.every(Number.isFinite) && direction.some((value) => value !== 0)) continue;
          const array = this.#array(name), which = Math.floor((at - array.offset) / width);
          throw fail("argument", `"${name}": block ${which} is (${block.join(", ")}), which is no point of its ` +
                                   "manifold; expected numbers that each direction moves (a quaternion is not 0)");
        }
      }
    }
  }

  /** Numbers of a block. */
  width(array: string): number {
    return this.#array(array).width;
  }

  /** A copy of the numbers of an array of unknowns at the last accepted point. */
  parameters(array: string): Float64Array {
    const { offset, width, blocks } = this.#array(array);
    return this.#x.slice(offset, offset + width * blocks);
  }

  /** A copy of the data of the residuals with a label, instance by instance. */
  data(label: string): Float64Array {
    return this.#term(label).numbers.slice();
  }

  /**
   * Replaces the numbers of an array of unknowns, or the data of the residuals with a label. During
   * a solve the steps that follow start from there. Blocks that pin() holds keep their numbers.
   *
   * @param values as many finite numbers as there are, within their bounds and on their manifolds.
   *   Residuals that all read the same unknowns, as those of a curve do, take data of any number of
   *   instances while no solve runs.
   */
  set(name: string, values: ArrayLike<number>): void {
    const array = this.#header.arrays.find((one) => one.name === name);
    if (array === undefined) return this.#setData(name, values);
    this.#check(name, values, array.width * array.blocks);
    this.#inBounds(name, array.offset, values);
    const held = this.#pinned.subarray(array.offset, array.offset + values.length);
    const merged = Float64Array.from(values, (value, k) => held[k] !== 0 ? this.#x[array.offset + k] : value);
    this.#onManifolds(name, array.offset, array.width, merged);
    this.#write(array.offset, merged);
  }

  #write(first: number, values: ArrayLike<number>): void {
    this.#x.set(values, first);
    if (this.#solving) this.#writes.push([first, Float64Array.from(values)]);
    ++this.#revision;
  }

  #rewrite(to: Float64Array): void {
    for (const [first, values] of this.#writes) to.set(values, first);
  }

  /** Takes over the numbers of each step, and keeps what the caller has set meanwhile. */
  async *#follow(steps: AsyncGenerator<Step, Summary, void>, x: Float64Array): AsyncGenerator<Step, Summary, void> {
    for (;;) {
      const next = await steps.next();
      this.#x.set(x);
      this.#rewrite(this.#x);
      if (next.done) return next.value;
      yield next.value;
    }
  }

  /** True if all residuals with a label read the same unknowns, as those of a curve do. */
  #isCurve(term: Term): boolean {
    const { instances, index } = term, stride = index.length / instances;
    for (let k = stride; k < index.length; ++k) if (index[k] !== index[k - stride]) return false;
    return true;
  }

  /** Replaces the data of residuals; those of a curve may be of any number. */
  #setData(name: string, values: ArrayLike<number>): void {
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
    this.#energies.clear();
  }

  /**
   * The rows of the residuals with a label at the present point, instance by instance, corrected for
   * losses. An energy has one row, its value.
   *
   * @param data numbers in place of data(label), for as many instances; any number for a curve
   */
  residuals(label: string, data?: ArrayLike<number>): Float64Array {
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

  /** Pairs of blocks of an array that meet in residuals which meet no third one, each once. */
  links(array: string): Uint32Array {
    const { offset, width, blocks } = this.#array(array), found = new Set<number>();
    for (const { instances, parameters, index } of this.#model.terms) {
      const stride = index.length / instances;
      for (let i = 0; i < instances; ++i) {
        const met = new Set<number>();
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

  /** Holds a block at these numbers until it is released; set() leaves it there. */
  pin(array: string, block: number, values: ArrayLike<number>): void {
    const { first, width } = this.#block(array, block);
    this.#check(array, values, width);
    this.#inBounds(array, first, values);
    this.#onManifolds(array, first, width, values);
    this.#write(first, values);
    this.#pinned.fill(1, first, first + width);
  }

  /** Frees a block that pin() holds. */
  release(array: string, block: number): void {
    const { first, width } = this.#block(array, block);
    this.#pinned.fill(0, first, first + width);
    ++this.#revision;
  }

  /** Half the sum of squares, or of losses, and all energies, at the present point. */
  cost(): number {
    return this.#model.cost(this.#x);
  }

  get #methods(): string[] {
    if (!this.#kind.hasEnergies) return ["levenberg_marquardt", "gauss_newton"];
    const second = this.#model.terms.every((term) => (term.hessian ?? term.hvp) !== undefined);
    return second ? ["newton", "lbfgs"] : ["lbfgs"];
  }

  #energiesFor(model: Model<EnergyTerm>, { linearSolver }: Options): Energies {
    if (this.#energies.size === 0) model.free(this.#constant);
    const known = this.#energies.get(linearSolver);
    if (known !== undefined) return known;
    const made = new Energies(model, linearSolver, this.#order);
    this.#energies.set(linearSolver, made);
    return made;
  }

  /** The stepper for a linear solver, whose analysis serves all solves. */
  async #stepperFor(model: Model<ResidualTerm>, options: Options, isFine = false): Promise<Stepper> {
    const onDevice = this.#found !== undefined && options.linearSolver !== "factor";
    const name = !onDevice ? options.linearSolver : this.#float32 === undefined || isFine ? "device" : "f32";
    if (this.#steppers.size === 0) model.free(this.#constant);
    const known = this.#steppers.get(name);
    if (known !== undefined) return known;
    if (this.#found === undefined || !onDevice) return this.#keep(name, model, options);
    try {
      if (this.#system === undefined) {
        const opening = this.#opening ??= this.#open(model, this.#found);
        const opened = await opening;
        if (opening !== this.#opening) {  // it was closed meanwhile
          opened.device.destroy();
          return this.#stepperFor(model, options, isFine);
        }
        this.#system = opened;
      }
      if (this.#float32 === undefined || isFine)
        return this.#keep(name, model, options, new DeviceIteration(model, this.#system));
      const made = this.#float32.makeStepper(model, options, this.faces.length > 0, this.#system);
      this.#steppers.set(name, made);
      return made;
    } catch (error) {
      if (this.#asked && error instanceof DeviceError) throw fail(error.code, error.message);
      this.#leave(error);
      return this.#stepperFor(model, options);
    }
  }

  async #open(model: Model<ResidualTerm>, { gpu }: webgpu.Found): Promise<webgpu.System> {
    const made = new (this.#float32?.Float32System ?? System)(model);
    return made.open(await findAdapter(gpu));
  }

  /** Opens the device, or analyses the factor, as the first solve does otherwise. */
  async prepare(): Promise<void> {
    const all = resolve({}, this.#header.options, this.#methods), kind = this.#kind;
    if (kind.hasEnergies) this.#energiesFor(kind.model, all);
    else await this.#stepperFor(kind.model, all);
  }

  #keep(name: string, model: Model<ResidualTerm>, options: Options, iteration?: webgpu.DeviceIteration): Stepper {
    const made = new Stepper(model, options, this.#order, this.faces.length > 0, iteration?.device, iteration);
    this.#steppers.set(name, made);
    return made;
  }

  /** Goes on in JavaScript after an error of the device; throws any other one. */
  #leave(error: unknown): void {
    if (!(error instanceof DeviceError)) throw error;
    this.#close();
    this.#found = undefined;
    this.#device = "JavaScript";
    this.#reason = error.message;
  }

  /** Gives a device back that solves have opened; the next solve opens another one. */
  close(): void {
    if (this.#solving) throw fail("busy", "the problem is being solved; end that solve first");
    this.#close();
  }

  #close(): void {
    this.#system?.device.destroy();
    this.#system = this.#opening = undefined;
    this.#steppers.delete("device");
    this.#steppers.delete("f32");
  }

  /** Where a solve that keeps a factor runs: "javascript" or "device"; undefined for others. */
  async #placeOf(model: Model<ResidualTerm>, options: Options): Promise<Place | undefined> {
    const { reuseFactor, linearSolver } = options;
    if (this.#found === undefined || reuseFactor !== true || linearSolver !== "automatic" ||
        this.#x.length > mostRaced)
      return undefined;
    const { isDear } = await this.#stepperFor(model, { ...options, linearSolver: "factor" });
    return isDear ? undefined : this.#race.next;
  }

  /** Gives a trial on the device up after its time. */
  #limitTrial(options: Options): void {
    const { signal } = options, end = performance.now() + 1000 * this.#race.limit(options.maxIterations);
    this.#system?.expect(0);
    options.signal = {
      get aborted() {
        if (options.linearSolver !== "factor" && performance.now() > end) throw tooSlow;
        return signal?.aborted === true;
      },
    };
  }

  /**
   * Minimises from the present point, and yields each step. Returns the summary. Leaving the loop
   * early ends the solve; the unknowns are those of the last accepted point.
   */
  async *solve(options: SolveOptions = {}): AsyncGenerator<Step, Summary, void> {
    const all = resolve(options, this.#header.options, this.#methods), kind = this.#kind;
    if (this.#solving) throw fail("busy", "the problem is being solved; end that solve first");
    this.#solving = true;
    this.#writes = [];
    try {
      let seen: { revision: number; stepper: Stepper | Energies } | undefined;
      const x = this.#x.slice();
      const changed = (stepper: Stepper | Energies) => {
        if (seen?.revision === this.#revision && seen.stepper === stepper) return false;
        seen = { revision: this.#revision, stepper };
        this.#rewrite(x);
        this.#writes = [];
        stepper.begin(all, this.#pinned);
        return true;
      };
      if (kind.hasEnergies) {
        return yield* this.#follow(
          minimiseEnergies(this.#energiesFor(kind.model, all), x, all, changed, turnsOf(all.signal), fail), x);
      }
      const { model } = kind;
      let place = await this.#placeOf(model, all);
      if (place === "javascript") all.linearSolver = "factor";
      const stepper = await this.#stepperFor(model, all);
      if (place === "device") this.#limitTrial(all);
      const instead = (error: unknown) => {
        if (error === tooSlow && place !== undefined) {
          this.#race.took(place, Infinity, 1);
          this.#reason = this.#race.reason;
          place = undefined;
          all.linearSolver = "factor";
        } else {
          this.#leave(error);
        }
        return this.#steppers.get(all.linearSolver) ?? this.#keep(all.linearSolver, model, all);
      };
      const summary = yield* this.#follow(
        minimise(stepper, x, all, changed, instead, () => this.#stepperFor(model, all, true), fail), x);
      if (place !== undefined && this.#found !== undefined && summary.status !== "aborted") {
        this.#race.took(place, summary.seconds, summary.iterations);
        this.#reason = this.#race.reason;
      }
      return summary;
    } finally {
      this.#solving = false;
      this.#writes = [];
    }
  }

  /** As solve(), without its steps. */
  async minimize(options: SolveOptions = {}): Promise<Summary> {
    const steps = this.solve(options);
    for (;;) {
      const next = await steps.next();
      if (next.done) return next.value;
    }
  }
}
