// The cost of a problem with energies as a function of the coordinates of a step: its gradient, its
// Hessian, and the directions of L-BFGS and of Newton's method.
import { removeNegativePart } from "./eigen.js";
import { Factor, type Pause, dearestFactor, dot } from "./linear.js";
import type { EnergyTerm, List, Model, Term } from "./model.js";
import type { Options } from "./rules.js";

/** Least and largest share of the largest diagonal entry that is added to a projected Hessian. */
const leastShift = 1e-12, largestShift = 1e6;
/**
 * Full steps in a row that promise more than this share of the one before, after which the Hessian is
 * tried as it is.
 */
const slowSteps = 3, slow = 0.01;
/** A pair of L-BFGS whose vectors have at most this cosine says nothing about the curvature. */
const leastCosine = 1e-12;

/** Evaluates costs, gradients and Hessians over a model whose columns have been numbered. */
export class Energies<T extends Term = EnergyTerm> {
  readonly model: Model<T>;
  readonly lists: readonly List[];
  readonly linearSolver: Options["linearSolver"];
  readonly order: Uint32Array | undefined;
  readonly pinned: Uint8Array;
  readonly sums: Float64Array;
  hessians: Float64Array[] = [];
  made: Factor | null | undefined;  // null: it is too dear

  /** @param order of elimination */
  constructor(model: Model<T>, linearSolver: Options["linearSolver"], order?: Uint32Array) {
    this.model = model;
    this.lists = model.lists;
    this.linearSolver = linearSolver;
    this.order = order;
    this.pinned = new Uint8Array(model.m);
    this.sums = new Float64Array(model.m + 1);
  }

  begin(_options: Options, pinned: Uint8Array): void {
    this.model.columns(pinned, this.pinned);
  }

  get factor(): Factor | undefined {
    if (this.linearSolver === "cg") return undefined;
    if (this.made === undefined) {
      this.made = Factor.make(this.model, this.order) ?? null;
      if (this.linearSolver === "automatic" && this.made !== null && this.made.operations > dearestFactor)
        this.made = null;
    }
    return this.made ?? undefined;
  }

  /** Sets g to the gradient, which is 0 for pinned columns, and returns the cost. */
  gradient(this: Energies, x: Float64Array, g: Float64Array): number {
    const { model, lists, sums, pinned } = this, { rowOfBasis, tangentOf, bases } = model;
    model.moveBases(x);
    sums.fill(0);
    let sum = 0, lost = 0;
    model.terms.forEach((term, k) => {
      const { parameters, uniforms, index } = term, stride = parameters + uniforms;
      const { width, columns, positions } = lists[k];
      model.each(term, x, term.gradient, parameters + 1, (out, i) => {
        for (let s = 0; s < parameters; ++s) {
          const position = positions[i * parameters + s];
          if (position < 0) continue;
          const scalar = index[i * stride + s], basis = rowOfBasis[scalar];
          const column = columns[i * width + position];
          if (basis < 0) {
            sums[column] += out[s];
          } else {
            for (let t = 0; t < tangentOf[scalar]; ++t) sums[column + t] += out[s] * bases[basis + t];
          }
        }
        const value = out[parameters], next = sum + value;
        lost += Math.abs(sum) >= Math.abs(value) ? sum - next + value : value - next + sum;
        sum = next;
      });
    });
    for (let c = 0; c < model.m; ++c) g[c] = pinned[c] === 0 ? sums[c] : 0;
    return Number.isFinite(sum) ? sum + lost : sum;
  }

  /**
   * Evaluates the Hessian of each instance in its columns: lower triangles by rows.
   *
   * @param project removes negative eigenvalues, each instance's by itself, pinned columns left out
   * @param paused awaited now and then; true ends the evaluation
   * @returns false if it was ended
   */
  async evaluateHessians(x: Float64Array, project: boolean, paused: Pause): Promise<boolean> {
    const { model, lists } = this;
    if (this.hessians.length === 0) {
      this.hessians = lists.map(({ instances, width }) =>
        new Float64Array(instances * width * (width + 1) / 2));
    }
    for (const [k, term] of model.terms.entries()) {
      const instance = new Instance(term, lists[k], this.hessians[k].fill(0), this.pinned);
      for (let i = 0; i < term.instances; ++i) {
        if (i % 32 === 0 && await paused()) return false;
        instance.evaluate(model, x, i, project);
      }
    }
    return true;
  }

  /** q = H v; the number behind the columns of v is 0, that of q is scratch. */
  product(v: Float64Array, q: Float64Array): void {
    q.fill(0);
    this.lists.forEach(({ instances, width, columns }, k) => {
      const numbers = this.hessians[k];
      for (let i = 0, at = 0; i < instances; ++i) {
        const own = i * width;
        for (let a = 0; a < width; ++a) {
          const row = columns[own + a], along = v[row];
          let sum = 0;
          for (let b = 0; b < a; ++b, ++at) {
            const column = columns[own + b];
            sum += numbers[at] * v[column];
            q[column] += numbers[at] * along;
          }
          q[row] += sum + numbers[at++] * along;
        }
      }
    });
    for (let c = 0; c < this.model.m; ++c) if (this.pinned[c] !== 0) q[c] = 0;
  }
}

/** The Hessian of one instance after the other. */
class Instance {
  readonly term: Term;
  readonly list: List;
  readonly to: Float64Array;
  readonly pinned: Uint8Array;
  readonly p: Float64Array;
  readonly u: Float64Array;
  readonly d: Float64Array;
  readonly t: Float64Array;
  readonly out: Float64Array;
  readonly part = new Map<number, Float64Array>();  // by size
  readonly free: number[] = [];

  constructor(term: Term, list: List, to: Float64Array, pinned: Uint8Array) {
    const { parameters, data, uniforms } = term;
    this.term = term;
    this.list = list;
    this.to = to;
    this.pinned = pinned;
    this.p = new Float64Array(parameters);
    this.u = new Float64Array(uniforms);
    this.d = new Float64Array(data);
    this.t = new Float64Array(parameters);
    this.out = new Float64Array(term.hvp ? parameters : parameters * (parameters + 1) / 2);
  }

  evaluate(model: Model, x: Float64Array, i: number, project: boolean): void {
    const { term, list, p, u, d } = this, { parameters, data, uniforms, index, numbers } = term;
    let at = i * (parameters + uniforms);
    for (let k = 0; k < parameters; ++k) p[k] = x[index[at++]];
    for (let k = 0; k < uniforms; ++k) u[k] = model.uniforms[index[at++]];
    for (let k = 0; k < data; ++k) d[k] = numbers[i * data + k];
    const { width, columns, positions } = list, free = this.free;
    free.length = 0;
    for (let s = 0; s < parameters; ++s) {
      const position = positions[i * parameters + s];
      if (position >= 0 && this.pinned[columns[i * width + position]] === 0) free.push(s);
    }
    const n = free.length;
    if (n === 0) return;
    const block = this.#block(n);
    if (project) removeNegativePart(n, block);
    const base = i * width * (width + 1) / 2;
    for (let a = 0; a < n; ++a) {
      for (let b = 0; b <= a; ++b) {
        const first = positions[i * parameters + free[a]], second = positions[i * parameters + free[b]];
        const row = Math.max(first, second), value = block[a * n + b];
        // Two slots of an unknown count twice on its diagonal.
        this.to[base + row * (row + 1) / 2 + Math.min(first, second)] +=
          first === second && a !== b ? 2 * value : value;
      }
    }
  }

  #block(n: number): Float64Array {
    const { term, free, p, d, u, t, out } = this, parameters = term.parameters;
    let block = this.part.get(n);
    if (block === undefined) this.part.set(n, block = new Float64Array(n * n));
    if (term.hvp) {
      for (let a = 0; a < n; ++a) {
        t[free[a]] = 1;
        term.hvp(p, d, u, t, out);
        t[free[a]] = 0;
        for (let b = a; b < n; ++b) block[a * n + b] = block[b * n + a] = out[free[b]];
      }
      return block;
    }
    term.hessian?.(p, d, u, out);
    for (let a = 0; a < n; ++a) {
      const s = free[a], base = s * parameters - s * (s - 1) / 2 - s;
      for (let b = a; b < n; ++b) block[a * n + b] = block[b * n + a] = out[base + free[b]];
    }
    return block;
  }
}

/** Directions along which the cost falls. */
export interface Search {
  /** How many small steps are an end: one that is confirmed, none yet, or a window of them. */
  readonly settling: "newton" | "loose" | "window";
  /** Iterations of the last linear system. */
  readonly iterations: number;
  /** The length 1 has a meaning. */
  readonly hasModel: boolean;
  /** Sets the direction. False if it was ended. */
  compute(x: Float64Array, g: Float64Array, held: Uint8Array, direction: Float64Array, paused: Pause): Promise<boolean>;
  /** A small step asks for directions that are more exact. */
  tighten(): void;
  /** Tells of a step, with the change of the gradient. */
  moved(length: number, step: Float64Array, change: Float64Array): void;
  /** After a failure; false if there is nothing to forget. */
  reset(): boolean;
}

interface Pair {
  readonly s: Float64Array;
  readonly y: Float64Array;
  readonly sy: number;
}

/** From the gradients of the last steps. Source: Nocedal & Wright, 2nd ed., algorithm 7.4. */
export class Lbfgs implements Search {
  readonly settling = "window";
  readonly iterations = 0;
  readonly m: number;
  readonly rank: number;
  #pairs: Pair[] = [];

  constructor(energies: Energies, options: Options) {
    this.m = energies.model.m;
    this.rank = Math.max(options.maxLbfgsRank, 1);
  }

  get hasModel(): boolean {
    return this.#pairs.length > 0;
  }

  async compute(_x: Float64Array, g: Float64Array, held: Uint8Array, direction: Float64Array): Promise<boolean> {
    for (let c = 0; c < this.m; ++c) direction[c] = held[c] === 0 ? -g[c] : 0;
    let pairs = this.#pairs;
    if (held.some((flag) => flag !== 0)) {
      const free = (v: Float64Array) => v.map((value, c) => held[c] === 0 ? value : 0);
      pairs = pairs.flatMap(({ s, y }) => this.#pair(free(s), free(y)));
    }
    const m = this.m, alpha = new Float64Array(pairs.length);
    for (let k = pairs.length; k-- > 0;) {
      const { s, y, sy } = pairs[k], factor = alpha[k] = dot(s, direction, m) / sy;
      for (let c = 0; c < m; ++c) direction[c] -= factor * y[c];
    }
    if (pairs.length > 0) {
      const { y, sy } = pairs[pairs.length - 1], scale = sy / dot(y, y, m);
      for (let c = 0; c < m; ++c) direction[c] *= scale;
    }
    pairs.forEach(({ s, y, sy }, k) => {
      const factor = alpha[k] - dot(y, direction, m) / sy;
      for (let c = 0; c < m; ++c) direction[c] += factor * s[c];
    });
    return true;
  }

  /** The pair, if it says something about the curvature. */
  #pair(s: Float64Array, y: Float64Array): Pair[] {
    const m = this.m, sy = dot(s, y, m);
    return sy > leastCosine * Math.sqrt(dot(s, s, m)) * Math.sqrt(dot(y, y, m)) ? [{ s, y, sy }] : [];
  }

  tighten(): void {}

  moved(_length: number, step: Float64Array, change: Float64Array): void {
    this.#pairs.push(...this.#pair(step.slice(), change.slice()));
    if (this.#pairs.length > this.rank) this.#pairs.shift();
  }

  reset(): boolean {
    const any = this.#pairs.length > 0;
    this.#pairs = [];
    return any;
  }
}

/**
 * Solves (H + τ max diag(H)) d = −g by a factor. H is the sum of the projected Hessians of all
 * instances; τ grows where it is singular or steps are short, and shrinks after full steps. Where full
 * steps converge slowly, H is the Hessian as it is, if that is positive definite.
 *
 * Source: Teran et al., Robust Quasistatic Finite Elements and Flesh Simulation (2005).
 */
export class ProjectedNewton implements Search {
  readonly settling = "newton";
  readonly iterations = 0;
  readonly energies: Energies;
  readonly factor: Factor;
  readonly damping: Float64Array;
  #shift = leastShift;
  #slow = { steps: 0, allowed: slowSteps, promised: 0 };
  #exactFailed = false;
  #curved = true;

  constructor(energies: Energies, factor: Factor) {
    this.energies = energies;
    this.factor = factor;
    this.damping = new Float64Array(energies.model.m);
  }

  get hasModel(): boolean {
    return this.#curved;
  }

  async compute(x: Float64Array, g: Float64Array, held: Uint8Array, direction: Float64Array,
                paused: Pause): Promise<boolean> {
    const { energies, factor } = this, m = energies.model.m, slowness = this.#slow;
    let exact = false;
    if (this.#isSlow && !this.#exactFailed) {
      if (!await energies.evaluateHessians(x, false, paused)) return false;
      factor.assembleBlocks(energies.hessians);
      exact = factor.factor(this.damping.fill(0), held, false) >= 0;
      if (!exact) {
        slowness.steps = 0;
        slowness.allowed *= 2;
      }
    }
    if (!exact) {
      if (!await energies.evaluateHessians(x, true, paused)) return false;
      factor.assembleBlocks(energies.hessians);
    }
    this.#curved = exact || this.#factorise(held);
    for (let c = 0; c < m; ++c) direction[c] = held[c] === 0 ? -g[c] : 0;
    if (this.#curved) factor.solve(direction);
    const promises = -dot(g, direction, m), { promised } = slowness;
    if (!this.#isSlow) slowness.steps = promised > 0 && promises > slow * promised ? slowness.steps + 1 : 0;
    slowness.promised = promises;
    return true;
  }

  get #isSlow(): boolean {
    return this.#slow.steps >= this.#slow.allowed;
  }

  /** With the smallest τ, from the present one upwards, that makes the matrix positive definite. */
  #factorise(held: Uint8Array): boolean {
    const { factor } = this, { pinned } = this.energies;
    let largest = 0;
    for (let c = 0; c < held.length; ++c)
      if (pinned[c] === 0) largest = Math.max(largest, factor.entries[factor.diagonalAt[c]]);
    if (!(largest > 0)) return false;
    for (; this.#shift <= largestShift; this.#shift *= 100)
      if (factor.factor(this.damping.fill(this.#shift * largest), held, false) >= 0) return true;
    return false;
  }

  tighten(): void {}

  moved(length: number): void {
    this.#exactFailed = false;
    if (length < 0.9) {
      this.#slow.steps = 0;
      this.#slow.promised = 0;
    }
    if (length < 0.1) this.#shift *= 10;
    if (length >= 0.9) this.#shift = Math.max(this.#shift / 10, leastShift);
  }

  reset(): boolean {
    if (this.#isSlow && !this.#exactFailed) return this.#exactFailed = true;
    if (this.#shift > 1) return false;
    this.#shift = Math.max(1e4 * this.#shift, 1e-4);
    return true;
  }
}

/**
 * Solves H d = −g by conjugate gradients. H is not projected: they stop at min(½, √(‖g‖ / its first
 * value)) ‖g‖, or at negative curvature after one more step, as long as for the same positive
 * curvature. A small step ends nothing until one was solved to linearTolerance.
 *
 * Source: Nocedal & Wright, 2nd ed., algorithm 7.1.
 */
export class TruncatedNewton implements Search {
  iterations = 0;
  readonly energies: Energies;
  readonly options: Options;
  #gradientOnly = false;
  #exact = false;  // a small step asked for it
  #loose = false;  // the last direction
  #first = 0;      // ‖g‖ of the first direction

  constructor(energies: Energies, options: Options) {
    this.energies = energies;
    this.options = options;
  }

  get hasModel(): boolean {
    return !this.#gradientOnly;
  }
  get settling(): "newton" | "loose" {
    return this.#loose ? "loose" : "newton";
  }

  async compute(x: Float64Array, g: Float64Array, held: Uint8Array, direction: Float64Array,
                paused: Pause): Promise<boolean> {
    const { energies, options } = this, m = energies.model.m, vector = () => new Float64Array(m + 1);
    if (!await energies.evaluateHessians(x, false, paused)) return false;
    const r = vector(), p = vector(), q = vector();
    for (let c = 0; c < m; ++c) r[c] = p[c] = held[c] === 0 ? -g[c] : 0;
    direction.fill(0);
    let rr = dot(r, r, m);
    const norm = Math.sqrt(rr);
    if (this.#first === 0) this.#first = norm;
    let tolerance = Math.min(0.5, Math.sqrt(norm / this.#first));
    if (this.#exact) tolerance = Math.min(tolerance, options.linearTolerance);
    this.#loose = this.#gradientOnly || tolerance > options.linearTolerance;
    const most = this.#gradientOnly ? 0 : options.maxLinearIterations, enough = tolerance * norm;
    this.iterations = 0;
    for (let count = 0; count < most && rr > 0 && Math.sqrt(rr) > enough; ++count) {
      if (await paused()) return false;
      energies.product(p, q);
      for (let c = 0; c < m; ++c) if (held[c] !== 0) q[c] = 0;
      ++this.iterations;
      const curvature = dot(p, q, m), alpha = rr / Math.abs(curvature);
      if (!Number.isFinite(curvature) || curvature === 0) break;
      for (let c = 0; c < m; ++c) direction[c] += alpha * p[c];
      if (curvature < 0) break;
      for (let c = 0; c < m; ++c) r[c] -= alpha * q[c];
      const next = dot(r, r, m), beta = next / rr;
      rr = next;
      for (let c = 0; c < m; ++c) p[c] = r[c] + beta * p[c];
    }
    if (!direction.some((value) => value !== 0))
      for (let c = 0; c < m; ++c) direction[c] = held[c] === 0 ? -g[c] : 0;
    return true;
  }

  tighten(): void {
    this.#exact = true;
  }
  moved(): void {
    this.#gradientOnly = false;
  }
  reset(): boolean {
    if (this.#gradientOnly) return false;
    return this.#gradientOnly = true;
  }
}
