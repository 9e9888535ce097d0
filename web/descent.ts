// Minimises a scalar cost along directions: the line search, the rules for the end, and the escape
// from points without a gradient. Rules and numbers are those of the library.
import { type Energies, Lbfgs, ProjectedNewton, type Search, TruncatedNewton } from "./energy.js";
import { type Pause, dot } from "./linear.js";
import type { EnergyTerm, Model } from "./model.js";
import { type Options, type Verdict, reached, verdict } from "./rules.js";
import type { Turns } from "./solver.js";
import type { Step, Summary, TopogradError } from "./topograd.js";

const unit = 2 ** -52;
/** Changes of the cost below so many units of its rounding are invisible. */
const costRounding = 64;
const hiddenUnits = 4;
/** The first trial may promise this many times the cost, here or before the recent steps. */
const mostPromised = 10;
const shareOfStart = 1e-4;
/** Steps whose decrease must be small together: a share of all, and at least so many. */
const leastWindow = 5, windowShare = 10;
/** Recent steps at least. */
const leastRecent = 10;
/** The share of the decrease so far that a small step may still promise, of the function tolerance. */
const promise = 1e-6;
const leastChange = 1e-10;
/** Times that a descent goes on after its gradient contradicted it. */
const mostReturns = 3, mostContradicted = 10;
/** Distance of an escape, as a share of the root mean square of x. */
const escapeDistance = 1e-3;
const near = 1e-10;

// c₁ and c₂ of the strong Wolfe conditions, and how far a search goes.
const sufficientDecrease = 1e-4, sufficientCurvature = 0.9;
const maxExpansion = 10, minStepSize = 1e-9, maxEvaluations = 20;

const clamp = (value: number, low: number, high: number) => Math.min(Math.max(value, low), high);
const norm = (v: Float64Array) => Math.sqrt(dot(v, v, v.length));
const isNormal = (value: number) => Number.isFinite(value) && Math.abs(value) >= 2 ** -1022;

/** Norms of a gradient. */
interface Norms {
  readonly max: number;
  readonly squared: number;
}

/** A point of a line search. Its numbers are finite if it is usable. */
interface Sample {
  readonly step: number;
  readonly value: number;
  readonly slope: number;
  readonly usable: boolean;
}

/** A step, with its change of the cost. */
interface Taken {
  readonly cost: number;
  readonly change: number;
  readonly stepNorm: number;
  readonly length: number;
  readonly accepted: boolean;
  readonly linear: number;
}
interface Recorded extends Taken {
  readonly gradientMax: number;
  readonly gradientNorm: number;
}

/** An end, by a tolerance of the cost or by one of steps. */
interface Met {
  readonly end: Verdict;
  readonly byCost: boolean;
}

/** Functions of the solve that a descent calls; `paused` is awaited now and then: true ends the solve. */
interface Tools {
  readonly paused: Pause;
  readonly isChanged: () => boolean;
  readonly seconds: () => number;
  readonly fail: (code: TopogradError["code"], message: string) => TopogradError;
}

/** Largest component, NaN if there is one, and the square of the norm. */
function normsOf(g: Float64Array): Norms {
  let max = 0, squared = 0;
  for (const value of g) {
    max = Math.abs(value) <= max || Number.isNaN(max) ? max : Math.abs(value);
    squared += value * value;
  }
  return { max, squared };
}

/** Minimiser of the cubic with the values and slopes of both points, or NaN. Nocedal & Wright, 3.59. */
function cubicMinimiser(a: Sample, b: Sample): number {
  const d1 = a.slope + b.slope - 3 * (a.value - b.value) / (a.step - b.step);
  const root = Math.sqrt(d1 * d1 - a.slope * b.slope), d2 = b.step > a.step ? root : -root;
  return b.step - (b.step - a.step) * (b.slope + d2 - d1) / (b.slope - a.slope + 2 * d2);
}

/**
 * A step with φ(α) <= φ(0) + c₁ α φ'(0) and |φ'(α)| <= c₂ |φ'(0)|, by bracketing and cubic
 * interpolation; the best one with a sufficient decrease if the bound on evaluations comes first.
 *
 * Source: Nocedal & Wright, 2nd ed., algorithms 3.5 and 3.6; Hager & Zhang (2005) where rounding hides
 * differences.
 *
 * @param look evaluates a step, its value and slope; undefined ends the search
 * @returns the point, if one was found
 */
async function strongWolfe(look: (step: number) => Promise<Sample | undefined>, start: Sample, initial: number,
                           resolution: number): Promise<Sample | undefined> {
  let evaluations = 0;
  const evaluate = (step: number) => {
    ++evaluations;
    return look(step);
  };
  const mayGoOn = () => evaluations < maxEvaluations;
  const isHidden = (p: Sample) => p.usable && Math.abs(p.value - start.value) <= resolution &&
                          p.slope <= (2 * sufficientDecrease - 1) * start.slope;
  const decreases = (p: Sample) => p.usable && (isHidden(p) ||
    p.value <= start.value + sufficientDecrease * p.step * start.slope);
  const isFlat = (p: Sample) => Math.abs(p.slope) <= sufficientCurvature * Math.abs(start.slope);
  const isUnseen = (p: Sample) => p.usable && p.slope < 0 && !isFlat(p) && -p.step * start.slope <= resolution &&
                          Math.abs(p.value - start.value) <= resolution;
  const zoom = async (low: Sample, high: Sample) => {
    while (mayGoOn()) {
      const width = high.step - low.step;
      if (Math.abs(width) < minStepSize * Math.max(Math.abs(low.step), 1e-300)) break;
      const a = low.step + 0.1 * width, b = low.step + 0.9 * width;
      let step = high.usable ? cubicMinimiser(low, high) : low.step + width / 2;
      step = Number.isFinite(step) ? clamp(step, Math.min(a, b), Math.max(a, b)) : low.step + width / 2;
      const p = await evaluate(step);
      if (p === undefined) return undefined;
      if (!decreases(p) || (p.value >= low.value && !isHidden(p))) {
        high = p;
        continue;
      }
      if (isFlat(p)) return p;
      if (p.slope * width >= 0) high = low;
      low = p;
    }
    return low.step > 0 ? low : undefined;
  };
  let last = start, now = await evaluate(initial);
  while (now !== undefined && mayGoOn() && isUnseen(now)) now = await evaluate(maxExpansion * now.step);
  for (let first = true; now !== undefined && mayGoOn(); first = false) {
    const rises = !first && now.value >= last.value && !isHidden(now);
    if (!decreases(now) || rises) return zoom(last, now);
    if (isFlat(now)) return now;
    if (now.slope >= 0) return zoom(now, last);
    const next = cubicMinimiser(last, now), most = maxExpansion * now.step;
    last = now;
    now = await evaluate(Number.isFinite(next) ? clamp(next, 2 * last.step, most) : most);
  }
  if (now === undefined || decreases(now)) return now;
  return last.step > 0 ? last : undefined;
}

/** Numbers in [-1, 1) of the Mersenne twister with 64 bits. Source: Nishimura, TOMACS 10 (2000). */
function randomNumbers(seed: number, count: number): Float64Array {
  const size = 312, mask = (1n << 64n) - 1n, low = (1n << 31n) - 1n, state = [BigInt(seed)];
  for (let k = 1; k < size; ++k) {
    const last = state[k - 1];
    state.push((6364136223846793005n * (last ^ (last >> 62n)) + BigInt(k)) & mask);
  }
  let at = size;
  const next = () => {
    if (at === size) {
      for (let k = 0; k < size; ++k) {
        const y = (state[k] & (mask ^ low)) | (state[(k + 1) % size] & low);
        state[k] = state[(k + size / 2) % size] ^ (y >> 1n) ^ ((y & 1n) === 1n ? 0xb5026f5aa96619e9n : 0n);
      }
      at = 0;
    }
    let y = state[at++];
    y ^= (y >> 29n) & 0x5555555555555555n;
    y ^= (y << 17n) & 0x71d67fffeda60000n;
    y ^= (y << 37n) & 0xfff7eee000000000n;
    return y ^ (y >> 43n);
  };
  return Float64Array.from({ length: count }, () => -1 + 2 * (Number(next() >> 11n) * 2 ** -53));
}

/** The bound towards which a scalar moves. */
function bound({ lower, upper }: NonNullable<Model["bounds"]>, k: number, move: number): number {
  return move < 0 ? lower[k] : upper[k];
}

/** Bounds of the columns of a step. Source: Bertsekas, Projected Newton Methods (1982). */
class Box {
  readonly scalarOf: readonly number[];
  readonly bounds: Model["bounds"];
  readonly pinned: Uint8Array;
  readonly held: Uint8Array;

  constructor({ scalarOf, bounds }: Model<EnergyTerm>, pinned: Uint8Array) {
    this.scalarOf = scalarOf;
    this.bounds = bounds;
    this.pinned = pinned;
    this.held = pinned.slice();
  }

  look(x: Float64Array, g: Float64Array): void {
    this.held.set(this.pinned);
    if (this.bounds === undefined) return;
    for (let c = 0; c < g.length; ++c) {
      const k = this.scalarOf[c], to = bound(this.bounds, k, -g[c]);
      const distance = near * Math.max(Math.abs(x[k]), Math.abs(to));
      if (g[c] !== 0 && Number.isFinite(to) && Math.abs(x[k] - to) <= distance) this.held[c] = 1;
    }
  }

  finish(x: Float64Array, direction: Float64Array): void {
    if (this.bounds === undefined) return;
    const { scalarOf, bounds: { lower, upper } } = this;
    for (let c = 0; c < direction.length; ++c) {
      if (this.held[c] === 0 || this.pinned[c] !== 0) continue;
      const k = scalarOf[c], low = Math.abs(x[k] - lower[k]) <= Math.abs(x[k] - upper[k]);
      direction[c] = (low ? lower[k] : upper[k]) - x[k];
    }
  }

  longest(x: Float64Array, direction: Float64Array): number {
    const { bounds, scalarOf } = this;
    if (bounds === undefined) return Infinity;
    let out = 0;
    direction.forEach((move, c) => {
      const k = scalarOf[c];
      if (move !== 0) out = Math.max(out, (bound(bounds, k, move) - x[k]) / move);
    });
    return out > 0 ? out : 1;
  }

  project(x: Float64Array, g: Float64Array): Float64Array {
    const { bounds, scalarOf } = this;
    if (bounds === undefined) return g;
    return g.map((value, c) => {
      const k = scalarOf[c];
      return x[k] === bound(bounds, k, -value) ? 0 : value;
    });
  }

  slope(x: Float64Array, g: Float64Array, direction: Float64Array): number {
    const { bounds, scalarOf } = this;
    if (bounds === undefined) return dot(g, direction, g.length);
    let sum = 0;
    direction.forEach((move, c) => {
      const k = scalarOf[c];
      if (move !== 0 && x[k] !== bound(bounds, k, move)) sum += g[c] * move;
    });
    return sum;
  }
}

/** The course of a minimisation from one start. */
class Descent {
  readonly energies: Energies;
  readonly model: Model<EnergyTerm>;
  readonly x: Float64Array;
  readonly options: Options;
  readonly tools: Tools;
  readonly before: number;  // steps of the solve before this start
  readonly box: Box;
  readonly start: Float64Array;
  readonly history: Recorded[] = [];
  readonly g: Float64Array;
  readonly trialG: Float64Array;
  readonly direction: Float64Array;
  readonly trial: Float64Array;
  search: Search;
  escapes = 0;
  verdict: Verdict | undefined;
  met: Met | undefined;  // an end that the next direction has to confirm
  lastTwo = 0;  // decrease of the last two steps together
  lastSeveral = 0;
  changed = false;
  failedBefore = false;
  linear = 0;
  linearHere = 0;
  initial = NaN;
  cost = NaN;
  norms: Norms = { max: NaN, squared: NaN };
  path = 0;
  trialStep = NaN;
  trialCost = NaN;
  beyond = Infinity;

  constructor(energies: Energies, x: Float64Array, options: Options, before: number, tools: Tools) {
    const { model } = energies, vector = () => new Float64Array(model.m);
    this.energies = energies;
    this.model = model;
    this.x = x;
    this.options = options;
    this.tools = tools;
    this.before = before;
    this.search = this.#makeSearch();
    this.box = new Box(model, energies.pinned);
    this.start = x.slice();
    this.g = vector();
    this.trialG = vector();
    this.direction = vector();
    this.trial = x.slice();
  }

  get iterations(): number {
    return this.before + this.history.length - 1;
  }
  get #first(): Recorded {
    return this.history[0];
  }

  /** Yields steps; then `verdict` is set, `changed` is true or the caller has ended the solve. */
  async *run(): AsyncGenerator<Step, void, void> {
    for (let returns = 0;;) {
      const end = yield* this.#descendAndEscape();
      if (end === undefined || !this.#isContradicted()) return;
      if (++returns > mostReturns) {
        this.verdict = verdict("no_convergence", `${end.message}; but the gradient promises more`);
        return;
      }
    }
  }

  /** Descends from each escape. */
  async *#descendAndEscape(): AsyncGenerator<Step, Verdict | undefined, void> {
    for (;;) {
      yield* this.#descend();
      const end = this.verdict, escaped = end === undefined ? undefined : this.#escape();
      if (escaped === undefined) return end;
      yield escaped;
    }
  }

  #makeSearch(): Search {
    const { energies, options } = this;
    if (options.method === "lbfgs") return new Lbfgs(energies, options);
    const { factor } = energies;
    return factor === undefined ? new TruncatedNewton(energies, options) : new ProjectedNewton(energies, factor);
  }

  async *#descend(): AsyncGenerator<Step, void, void> {
    const { energies, x, g, box, history } = this;
    this.verdict = this.met = undefined;
    this.lastTwo = this.lastSeveral = 0;
    this.search = this.#makeSearch();
    this.path = history.reduce((sum, step) => sum + (step.accepted ? step.stepNorm : 0), 0);
    this.failedBefore = false;
    this.cost = energies.gradient(x, g);
    this.norms = normsOf(box.project(x, g));
    if (!Number.isFinite(this.cost))
      throw this.tools.fail("nonfinite", `the cost of the start is ${this.cost}`);
    if (!Number.isFinite(this.norms.max))
      throw this.tools.fail("nonfinite", "a derivative is not finite at the start");
    if (history.length === 0) {
      this.initial = this.cost;
      this.#record({ cost: this.cost, change: 0, stepNorm: 0, length: 0, accepted: false, linear: 0 });
    }
    this.#checkLimits();
    while (this.verdict === undefined) {
      if (await this.tools.paused()) return;
      if (this.tools.isChanged()) {
        this.changed = true;
        return;
      }
      const step = await this.#iterate();
      if (step === undefined) return;
      if (step !== null) yield step;
    }
  }

  #record(step: Taken): void {
    this.history.push({ ...step, gradientMax: this.norms.max, gradientNorm: Math.sqrt(this.norms.squared) });
  }

  #told(step: Taken): Step {
    return { iteration: this.iterations, cost: this.cost, accepted: step.accepted,
             gradient: this.norms.max, radius: step.length, linearIterations: step.linear,
             seconds: this.tools.seconds() };
  }

  #checkLimits(): void {
    if (this.verdict !== undefined) return;
    const o = this.options, bound = o.gradientTolerance * shareOfStart * this.#first.gradientMax;
    if (this.norms.max <= bound && !this.#stillFalls())
      this.verdict = reached("gradient tolerance reached: max |gradient|:", this.norms.max, bound);
    else if (this.tools.seconds() >= o.timeLimitSeconds)
      this.verdict = verdict("no_convergence", `time limit reached: ${o.timeLimitSeconds} s`);
    else if (this.iterations >= o.maxIterations)
      this.verdict = verdict("no_convergence", `maximum number of iterations reached: ${o.maxIterations}`);
  }

  /** The largest component of the gradient from a step of the history on. */
  #largestGradient(from: number): number {
    return this.history.slice(from).reduce((most, step) => Math.max(most, step.gradientMax), 0);
  }

  // A steep start says nothing about the end.

  /** The first step after the steep ones, and that of the last quarter to half, which are ten at least. */
  #firstGentle(): number {
    return Math.floor(2 ** (Math.floor(Math.log2(this.history.length)) - 3));
  }
  #firstRecent(): number {
    const size = this.history.length;
    return size <= leastRecent ? 0 : Math.min(2 ** (Math.floor(Math.log2(size)) - 1), size - leastRecent);
  }
  get #gentleCost(): number {
    return this.history[this.#firstGentle()].cost;
  }
  get #recentCost(): number {
    return this.history[this.#firstRecent()].cost;
  }

  /**
   * The last steps lowered the cost by much: a gradient that is small beside that of a steep start is no
   * end. Where it is small beside recent ones, too, fewer steps say so.
   */
  #stillFalls(): boolean {
    const bound = this.options.gradientTolerance * this.#largestGradient(this.#firstRecent());
    return this.norms.max > 0 &&
           (this.norms.max <= bound ? this.lastTwo : this.lastSeveral) > this.#resolution();
  }

  /** Changes of the cost below this mean convergence, or rounding. */
  #resolution(cost = this.cost): number {
    const size = Math.min(Math.abs(cost), Math.abs(this.#gentleCost - cost));
    return Math.max(this.options.functionTolerance * size,
                    costRounding * unit * Math.max(Math.abs(this.#recentCost), Math.abs(cost)));
  }

  async #look(length: number): Promise<Sample | undefined> {
    if (await this.tools.paused()) return undefined;
    const { model, x, direction, trial, trialG, box } = this;
    model.plus(x, direction, length, trial);
    const value = this.energies.gradient(trial, trialG), slope = box.slope(trial, trialG, direction);
    const usable = Number.isFinite(value) && Number.isFinite(slope);
    this.trialStep = length;
    this.trialCost = value;
    if (usable && slope >= 0 && length > 0) this.beyond = Math.min(this.beyond, length);
    return { step: length, value, slope, usable };
  }

  /** A direction that leads down: its slope, 0 if there is none, and the first length. */
  async #aim(): Promise<{ slope: number; first: number } | undefined> {
    const { search, box, x, g, direction } = this;
    const leadsDown = (value: number) => value < 0 && Number.isFinite(value);
    let slope = 0;
    this.linearHere = 0;
    box.look(x, g);
    do {
      if (!await search.compute(x, g, box.held, direction, this.tools.paused)) return undefined;
      this.linearHere = search.iterations;
      box.finish(x, direction);
      slope = box.slope(x, g, direction);
    } while (!leadsDown(slope) && search.reset());
    const first = Math.min(search.hasModel ? 1 : this.#firstLength(), box.longest(x, direction));
    return { slope: leadsDown(slope) ? slope : 0, first };
  }

  /** Along −g, of which no model is known: to where a linear cost vanishes. */
  #firstLength(): number {
    const size = Math.sqrt(this.norms.squared);
    const byCost = Math.abs(this.cost) / size / size, bySize = norm(this.x) / size;
    if (isNormal(byCost) && isNormal(bySize)) return clamp(bySize, leastChange * byCost, byCost);
    return isNormal(byCost) ? byCost : isNormal(bySize) ? bySize : 1 / this.norms.max;
  }

  /** One step. Undefined if the caller has ended the solve, null if there was no direction. */
  async #iterate(): Promise<Step | null | undefined> {
    const aim = await this.#aim();
    if (aim === undefined) return undefined;
    const { slope } = aim, { met } = this;
    this.met = undefined;
    // Terms of the cost may have been as large as at the start, and round so.
    const byStart = met?.byCost === false ? costRounding * unit * Math.abs(this.initial) : 0;
    if (met !== undefined && -slope * aim.first / 2 <= Math.max(this.#resolution(), byStart)) {
      this.verdict = met.end;
      return null;
    }
    if (slope === 0) {
      this.#fail("no direction leads down");
      return null;
    }
    const largest = Math.max(Math.abs(this.cost), Math.abs(this.#recentCost));
    const most = mostPromised * largest;
    const first = most > 0 && -slope * aim.first > most ? most / -slope : aim.first;
    this.beyond = Infinity;
    const hidden = hiddenUnits * unit * largest;
    let ended = false;
    const look = async (length: number) => {
      const point = await this.#look(length);
      ended ||= point === undefined;
      return point;
    };
    const start = { step: 0, value: this.cost, slope, usable: true };
    const point = await strongWolfe(look, start, first, hidden);
    if (!ended && point !== undefined && this.trialStep !== point.step) await look(point.step);
    if (ended) return undefined;
    this.linear += this.linearHere;
    return point === undefined ? this.#giveUp(-slope) : this.#take(point);
  }

  #take(point: Sample): Step {
    const { x, g, trial, trialG, direction, box, model } = this;
    const step = direction.map((value, c) =>
      box.bounds !== undefined ? trial[model.scalarOf[c]] - x[model.scalarOf[c]] : point.step * value);
    const xNorm = norm(x), change = this.cost - point.value;
    for (let c = 0; c < model.m; ++c) direction[c] = trialG[c] - g[c];
    this.search.moved(point.step, step, direction);
    x.set(trial);
    g.set(trialG);
    this.cost = point.value;
    this.norms = normsOf(box.project(x, g));
    this.failedBefore = false;
    const one = { cost: this.cost, change, stepNorm: norm(step), length: point.step, accepted: true,
                  linear: this.linearHere };
    this.path += one.stepNorm;
    const before = this.history[this.history.length - 1].change, several = this.#lastSteps(one).decrease;
    this.lastTwo = change + (this.search.settling === "window" ? before : 0);
    this.lastSeveral = Number.isFinite(several) ? Math.max(several, this.lastTwo) : this.lastTwo;
    const met = this.#metBy(one, xNorm), { settling } = this.search;
    if (settling === "window") this.verdict = met?.end;
    else if (settling === "newton") this.met = met;
    else if (met !== undefined) this.search.tighten();
    this.#record(one);
    this.#checkLimits();
    return this.#told(one);
  }

  /** The decrease and the largest step that must be small. */
  #lastSteps({ change, stepNorm }: Taken): { decrease: number; step: number } {
    const history = this.history, before = history[history.length - 1];
    const out = { decrease: Math.abs(change), step: stepNorm };
    if (this.search.settling !== "window") {
      // Steps whose decreases fall by a ratio have ratio / (1 - ratio) of the last one before them.
      const ratio = before.accepted && before.change > 0 ? out.decrease / before.change : 0;
      if (ratio > 0.5) out.decrease = ratio < 1 ? out.decrease * ratio / (1 - ratio) : Infinity;
      return out;
    }
    const accepted = history.filter((step) => step.accepted);
    const others = Math.max(leastWindow, Math.floor((accepted.length + 1) / windowShare)) - 1;
    if (accepted.length < others) return { decrease: Infinity, step: Infinity };
    for (const step of accepted.slice(accepted.length - others)) {
      out.decrease += Math.abs(step.change);
      out.step = Math.max(out.step, step.stepNorm);
    }
    return out;
  }

  #metBy(step: Taken, xNorm: number): Met | undefined {
    const o = this.options, bound = o.functionTolerance > 0 ? this.#resolution(step.cost) : 0;
    const last = this.#lastSteps(step);
    if (last.decrease <= bound)
      return { byCost: true, end: reached("function tolerance reached: |cost change|:", last.decrease, bound) };
    // ‖x‖ depends on the origin and the way on the start: steps are small against both.
    const size = o.parameterTolerance * Math.min(xNorm, this.path);
    const gained = Math.abs(this.initial - step.cost);
    const promises = o.functionTolerance > 0 &&
                     last.decrease > Math.max(bound, promise * o.functionTolerance * gained);
    return last.step <= size && !promises
      ? { byCost: false, end: reached("parameter tolerance reached: step norm:", last.step, size) } : undefined;
  }

  #giveUp(steepness: number): Step {
    const promised = steepness * (Number.isFinite(this.beyond) ? this.beyond : this.trialStep);
    const hidden = Math.max(this.#resolution(), this.options.functionTolerance * Math.abs(this.cost));
    const again = !this.failedBefore && this.search.reset();
    this.failedBefore = true;
    const one = { cost: this.cost, change: 0, stepNorm: 0, length: 0, accepted: false,
                  linear: this.linearHere };
    this.#record(one);
    this.#checkLimits();
    if (!again && this.verdict === undefined) {
      if (promised <= hidden)
        this.verdict = verdict("convergence", "function tolerance reached: the line search finds no decrease and " +
                                                "the gradient promises none above it");
      else
        this.#fail("the line search finds no decrease");
    }
    return this.#told(one);
  }

  /** No step lowers the cost any more: a gradient within the tolerance is an end then. */
  #fail(message: string): void {
    this.lastTwo = this.lastSeveral = 0;
    this.#checkLimits();
    this.verdict ??= verdict("failure", message);
  }

  /**
   * After convergence, looks on both sides of x along a random direction. If the cost falls on both, x
   * is a saddle or a kink and moves to the better side. Returns what the caller is told of it.
   *
   * Source: Jin et al., How to Escape Saddle Points Efficiently (2017), for the perturbation.
   */
  #escape(): Step | undefined {
    const { model, x, options, energies, box } = this;
    if (this.verdict?.status !== "convergence" || this.escapes >= options.maxEscapes ||
        this.iterations >= options.maxIterations)
      return undefined;
    const size = norm(x), length = escapeDistance * (size > 0 ? size / Math.sqrt(x.length) : 1);
    const numbers = randomNumbers(1 + this.escapes, x.length), step = new Float64Array(model.m);
    model.scalarOf.forEach((k, c) => { if (k >= 0) step[c] = length * numbers[k]; });
    for (const { at, manifold, column } of model.moved)
      for (let t = 0; t < manifold.tangent; ++t) step[column + t] = length * numbers[at + t];
    step.forEach((_, c) => { if (energies.pinned[c] !== 0) step[c] = 0; });
    const sides = [1, -1].map((sign) => {
      const to = x.slice(), g = new Float64Array(model.m);
      model.plus(x, step, sign, to);
      const cost = energies.gradient(to, g), norms = normsOf(g);
      return { to, g, cost: Number.isFinite(norms.max) && Number.isFinite(cost) ? cost : NaN, norms };
    });
    const fall = 2 * this.cost - sides[0].cost - sides[1].cost;
    if (!(fall > 2 * this.#resolution())) return undefined;
    const better = sides[0].cost < sides[1].cost ? sides[0] : sides[1];
    const change = this.cost - better.cost;
    x.set(better.to);
    this.cost = better.cost;
    this.norms = normsOf(box.project(x, better.g));
    ++this.escapes;
    const one = { cost: this.cost, change, stepNorm: norm(step), length: 1, accepted: true, linear: 0 };
    this.#record(one);
    return this.#told(one);
  }

  /** True if the solve says convergence, but its gradient promises a larger decrease. */
  #isContradicted(): boolean {
    const { options: o, model, x, start, box, history, energies } = this;
    if (this.verdict?.status !== "convergence") return false;
    const g = new Float64Array(model.m);
    energies.gradient(x, g);
    const projected = box.project(x, g), way = new Float64Array(model.m);
    model.scalarOf.forEach((k, c) => { if (k >= 0) way[c] = x[k] - start[k]; });
    for (const { at, manifold, column, basis } of model.moved) {
      for (let t = 0; t < manifold.tangent; ++t) {
        let along = 0, squared = 0;
        for (let k = 0; k < manifold.width; ++k) {
          const entry = model.bases[basis + k * manifold.width + t];
          along += entry * (x[at + k] - start[at + k]);
          squared += entry * entry;
        }
        way[column + t] = squared > 0 ? along / squared : along;
      }
    }
    const gained = this.initial - this.cost;
    let work = 0;
    for (let c = 0; c < model.m; ++c) work += Math.abs(projected[c]) * Math.abs(way[c]);
    const optimality = gained > 0 ? work / (2 * gained) : NaN;
    const { max } = normsOf(projected);
    const gradientBound = o.gradientTolerance * shareOfStart * this.#largestGradient(this.#firstRecent());
    if (max === 0 || max <= gradientBound) return false;
    const last = history[history.length - 1];
    const byModel = o.method === "newton" && last.accepted && last.length >= 1
      ? last.gradientNorm * last.stepNorm : Infinity;
    const claimed = Math.max(this.#resolution(), o.parameterTolerance ** 2 * Math.abs(this.#gentleCost - this.cost));
    return Math.min(optimality * optimality * gained, byModel) > mostContradicted * claimed;
  }
}

/**
 * Minimises from x, which then holds the last accepted point, and yields each step.
 *
 * @param changed called with `energies` before each step: true if the caller has changed numbers since
 *   the last call
 * @param fail makes the error of a code and a message
 */
export async function* minimiseEnergies(
    energies: Energies, x: Float64Array, options: Options, changed: (energies: Energies) => boolean,
    { paused, seconds }: Turns, fail: Tools["fail"]): AsyncGenerator<Step, Summary, void> {
  let ended = false, initial: number | undefined, linear = 0, descent: Descent, before = 0;
  const tools: Tools = {
    paused: async () => ended = await paused(),
    isChanged: () => changed(energies),
    seconds,
    fail,
  };
  changed(energies);
  do {
    descent = new Descent(energies, x, options, before, tools);
    yield* descent.run();
    initial ??= descent.initial;
    linear += descent.linear;
    before = descent.iterations;
  } while ((descent.changed || changed(energies)) && !ended);
  const { status, message } =
    (ended ? undefined : descent.verdict) ?? verdict("aborted", "the caller ended the solve");
  const factored = options.method === "newton" && energies.factor !== undefined;
  return { status, message, iterations: descent.iterations, linearIterations: linear,
           initialCost: initial, finalCost: descent.cost, seconds: seconds(), device: "JavaScript",
           linearSolver: options.method === "lbfgs" ? "none" : factored ? "factor" : "cg" };
}
