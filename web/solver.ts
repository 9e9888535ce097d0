// Levenberg-Marquardt over a model.
import { Curvature, type Direction, mostCurved, stepBeside } from "./curvature.js";
import {
  Factor, Iteration, type Pause, type Request, conjugateGradients, dearestFactor, dot, factorDense, leastPivot,
  solveByRows, vanishingShare, widestTested,
} from "./linear.js";
import type { Model, ResidualTerm } from "./model.js";
import {
  LostColumns, type Options, type Point, Rules, type Trial, type Verdict, isOutOfRange, lostColumns, noPoint, noStep,
  outOfIterations, outOfRange, parabolaMinimiser, verdict,
} from "./rules.js";
import type { Step, Summary, TopogradError } from "./topograd.js";

/** Unknowns that rows of the Jacobian may be solved for, and numbers of those. */
const fewUnknowns = 32, mostByRows = 256, mostRowNumbers = 1e6;
const turn = 4;  // of the event loop, in ms
/** Most iterations with an earlier factor. */
const mostWithFactor = 12;

const pause = typeof setImmediate === "function"
  ? () => new Promise<void>((done) => { setImmediate(done); })
  : () => new Promise<void>((done) => {
      const { port1, port2 } = new MessageChannel();
      port1.onmessage = () => {
        port1.close();
        done();
      };
      port2.postMessage(0);
    });

/** Of a solve: seconds since now, and what is awaited now and then, true after `signal`. */
export interface Turns {
  readonly paused: () => Promise<boolean>;
  readonly seconds: () => number;
}
export function turnsOf(signal: Options["signal"]): Turns {
  const begin = performance.now();
  let last = begin;
  const paused = async () => {
    if (performance.now() - last > turn) {
      await pause();
      last = performance.now();
    }
    return signal?.aborted === true;
  };
  return { paused, seconds: () => (performance.now() - begin) / 1000 };
}

/** Least share of columns in one that depends on them. */
const leastShare = 1e-3;

/** Columns of a block that depend on each other, set by set, by the lower triangle of its JᵀJ. */
function dependentSets(a: Float64Array, n: number): number[][] {
  const set = Array.from({ length: n }, (_, k) => k);
  for (const j of factorDense(a, n, leastPivot).depends) {
    const share = new Float64Array(j);  // of the columns before it
    for (let i = j; i-- > 0;) {
      if (!(a[i * n + i] > 0)) continue;
      let sum = a[j * n + i];
      for (let k = i + 1; k < j; ++k) sum -= a[k * n + i] * share[k];
      share[i] = sum / a[i * n + i];
      if (!(Math.abs(share[i]) > leastShare)) continue;
      const to = Math.min(set[i], set[j]), from = Math.max(set[i], set[j]);
      for (let k = 0; k <= j; ++k) if (set[k] === from) set[k] = to;
    }
  }
  const sets = set.map((first) => set.flatMap((other, k) => other === first ? [k] : []));
  return sets.filter((columns, k) => columns.length > 1 && columns[0] === k);
}

/** True where no factor is made unasked. */
function isDear(factor: Factor | undefined): boolean {
  return factor === undefined || !(factor.operations <= dearestFactor);
}

/** Evaluates points, and makes steps from them. */
export class Stepper {
  readonly model: Model<ResidualTerm>;
  readonly isMesh: boolean;
  readonly device: string;
  readonly small: boolean;
  /** So few unknowns that a step without damping costs little. */
  readonly few: boolean;
  readonly factor: Factor | undefined;
  readonly iteration: Iteration | undefined;
  readonly curvature: Curvature | undefined;
  /** The unit of rounding. */
  readonly unit: number = Number.EPSILON;
  /** It claims no end. */
  readonly isRough: boolean = false;
  readonly g: Float64Array;
  readonly squares: Float64Array;
  readonly damping: Float64Array;
  readonly delta: Float64Array;
  readonly image: Float64Array;
  readonly scale: Float64Array;
  readonly held: Uint8Array;
  readonly pinned: Uint8Array;  // columns that the caller holds
  readonly tested: Float64Array;
  readonly trial: Float64Array;
  options: Options;
  factored: Uint8Array | undefined;  // what was held when the factor was made
  alike: number[][] = [];            // columns that depend on each other
  isSummed = false;                  // the factor's entries are those of this point
  byRows = false;
  length = 0;                        // of the last step
  hidden = 0;
  slope = NaN;

  /**
   * @param order order of elimination of a factor
   * @param device where steps are solved for, if not in JavaScript  @param iteration solves for them there
   */
  constructor(model: Model<ResidualTerm>, options: Options, order: Uint32Array | undefined, isMesh: boolean,
              device?: string, iteration?: Iteration) {
    this.model = model;
    this.options = options;
    this.isMesh = isMesh;
    const m = model.m, vector = () => new Float64Array(m);
    this.g = vector();
    this.squares = vector();
    this.damping = vector();
    this.delta = new Float64Array(m + 1);
    this.image = new Float64Array(m + 1);
    this.scale = vector();
    this.held = new Uint8Array(m);
    this.pinned = new Uint8Array(m);
    this.tested = new Float64Array(widestTested ** 2);
    this.trial = new Float64Array(model.n);
    const fits = m * model.rows <= mostRowNumbers;
    this.small = fits && m <= fewUnknowns;
    this.device = device ?? "JavaScript";
    const made = device !== undefined || options.linearSolver === "cg" ? undefined : Factor.make(model, order);
    this.factor = options.linearSolver === "automatic" && isDear(made) ? undefined : made;
    this.iteration = device !== undefined ? iteration : this.factor === undefined ? new Iteration(model) : undefined;
    this.few = fits && m <= mostByRows;
    this.curvature = this.few && m <= mostCurved && model.isCurved ? new Curvature(this) : undefined;
  }

  get isDear(): boolean {
    return isDear(this.factor);
  }

  begin(options: Options, pinned: Uint8Array): void {
    this.model.columns(pinned, this.pinned);
    this.options = options;
    this.forget();
  }

  forget(): void {
    this.byRows = false;
    this.length = 0;
    this.scale.fill(0);
  }

  /** True if conjugate gradients follow the gradient's decrease: unasked on meshes. */
  get isLoose(): boolean {
    const { forcing, linearSolver } = this.options;
    return this.factor === undefined &&
           (forcing === "automatic" ? this.isMesh && linearSolver !== "cg" : forcing === "eisenstat_walker");
  }

  linearize(x: Float64Array, cost: number): Point | Promise<Point> {
    const { model, g, squares, scale, held, delta } = this, m = model.m;
    model.linearize(x);
    model.gradient(g, squares);
    this.isSummed = false;
    this.iteration?.assemble(squares, this.#seesBlocks);
    const point = { cost, gradientMax: 0, gradientNorm: 0, scaledGradientMax: 0, scaledXNorm: 0,
                    scaledStepNorm: 0 };
    const minus = g.map((value, c) => this.pinned[c] !== 0 ? 0 : -value);
    model.plus(x, minus, 1, this.trial);
    let square = 0, scaledX = 0, scaledStep = 0;
    const { bounds } = model;
    for (let k = 0; k < model.n; ++k) {
      const c = model.columnOf[k];
      // The difference would lose the digits of a gradient that is small beside x.
      const v = c < 0 || model.curved[k] !== 0 ? x[k] - this.trial[k]
        : bounds === undefined ? -minus[c]
        : Math.max(Math.min(-minus[c], x[k] - bounds.lower[k]), x[k] - bounds.upper[k]);
      point.gradientMax = v === v ? Math.max(point.gradientMax, Math.abs(v)) : NaN;
      square += v * v;
    }
    point.gradientNorm = Math.sqrt(square);
    for (let c = 0; c < m; ++c) {
      held[c] = this.pinned[c] !== 0 || model.isActive(c, x, g) ? 1 : 0;
      const norm = Math.sqrt(squares[c]), here = norm > 0 ? 1 / norm : 0;
      if (!(scale[c] > 0) && Number.isFinite(here * here)) scale[c] = here;
      if (norm > 0 && held[c] === 0) {
        const along = norm === Infinity ? norm : Math.abs(g[c]) / norm;
        point.scaledGradientMax = Math.max(point.scaledGradientMax, along);
      }
      scaledStep += (this.length * delta[c]) ** 2 * squares[c];
      if (model.scalarOf[c] >= 0) scaledX += squares[c] * x[model.scalarOf[c]] ** 2;
    }
    for (const { at, manifold, column, basis } of model.moved) {
      for (let t = 0; t < manifold.tangent; ++t) {
        let norm = 0, along = 0;
        for (let k = 0; k < manifold.width; ++k) {
          const p = model.bases[basis + k * manifold.width + t];
          norm += p * p;
          along += (p * x[at + k]) ** 2;
        }
        if (norm > 0) scaledX += squares[column + t] * (along / norm / norm);
      }
    }
    point.scaledXNorm = Math.sqrt(scaledX);
    point.scaledStepNorm = Math.sqrt(scaledStep);
    return point;
  }

  get #seesBlocks(): boolean {
    return this.model.manifolds.length === 0 && this.model.bounds === undefined;
  }

  #sum(factor: Factor): void {
    if (!this.isSummed) factor.assemble();
    this.isSummed = true;
  }

  /** The held columns of an earlier factor that serves, and with it the columns that depended on each other then. */
  get #reused(): Uint8Array | undefined {
    return this.options.reuseFactor === true ? this.factored : undefined;
  }

  /** The diagonal for the damping. */
  #diagonal(): Float64Array {
    const { squares } = this;
    if (!this.#seesBlocks) return squares;
    if (this.#reused === undefined) this.#findDependent();
    const out = squares.slice();
    for (const columns of this.alike) {
      const largest = columns.reduce((most, c) => Math.max(most, squares[c]), 0);
      for (const c of columns) out[c] = largest;
    }
    return out;
  }

  #findDependent(): void {
    const { nodes } = this.model;
    this.alike = [];
    if (this.factor !== undefined) this.#sum(this.factor);
    for (let k = 0; k + 1 < nodes.length; ++k) {
      const first = nodes[k], width = nodes[k + 1] - first;
      if (width === 1 || width > widestTested || !this.#block(k, first, width)) continue;
      for (const columns of dependentSets(this.tested, width)) this.alike.push(columns.map((c) => first + c));
    }
  }

  /** Copies the block of JᵀJ of a node to `tested`; false if it is not there. */
  #block(node: number, first: number, width: number): boolean {
    if (this.factor !== undefined) {
      this.factor.block(node, width, this.tested);
      return true;
    }
    if (this.iteration === undefined || this.iteration.width[first] !== width) return false;
    const { at, blocks } = this.iteration, begin = at[first];
    for (let k = 0; k < width * width; ++k) this.tested[k] = blocks[begin + k];
    return true;
  }

  #damp(lambda: number): void {
    const { options: o, scale, squares, damping } = this;
    const least = this.small ? Math.max(o.minLmDiagonal, 1) : o.minLmDiagonal;
    const entries = this.#diagonal();
    for (let c = 0; c < damping.length; ++c) {
      const s = scale[c] * scale[c], entry = entries[c];
      const added = s > 0 && Number.isFinite(s)
        ? lambda * Math.min(Math.max(s * entry, least), o.maxLmDiagonal) / s
        : lambda * (entry > 0 ? entry : 1);
      const whole = squares[c] + added;  // as much of it as is added in working precision
      damping[c] = Number.isFinite(whole) ? whole - squares[c] : added;
    }
  }

  /** Returns the iterations, or -1 if there is no step. */
  async #solve(request: Request, isExact: boolean, paused: Pause): Promise<number> {
    const { g, damping, held, delta, model, factor } = this, m = model.m, reused = this.#reused;
    this.hidden = 0;
    if (isExact) return this.#byRows(false) ? 0 : -1;
    if (factor === undefined) return this.iteration?.solve(g, damping, held, delta, request, paused) ?? -1;
    if (reused?.every((flag, c) => flag === held[c])) {
      const count = await conjugateGradients(
        model, (r, z) => { z.set(r); factor.solve(z); }, g, damping, held, delta,
        { ...request, inEnergy: true, maxIterations: mostWithFactor }, paused);
      // A step that is not exact enough leads down, too; the next one has a new factor.
      if (count === mostWithFactor) this.factored = undefined;
      if (count >= 0) return count;
    }
    this.factored = undefined;
    if (!this.byRows) this.#sum(factor);
    let vanished = this.byRows ? -1 : factor.factor(damping, held, !this.small);
    if (vanished >= 0) {
      for (let c = 0; c < m; ++c) delta[c] = held[c] === 0 ? -g[c] : 0;
      factor.solve(delta);
      if (vanished > 0) this.hidden = this.#hiddenDecrease();
      if (!delta.every(Number.isFinite)) vanished = -1;
      if (vanished === 0) this.factored = held.slice();
    }
    const rows = vanished < 0 ? this.small || this.byRows : this.few && this.hidden > this.#decrease();
    if (!rows) return vanished < 0 ? -1 : 0;
    if (!this.#byRows(true)) return -1;
    this.byRows = true;
    this.hidden = 0;
    return 0;
  }

  /** Solves with the rows of the Jacobian. Without damping, columns count as they are here. */
  #byRows(damped: boolean): boolean {
    const { model, damping, held, delta, squares } = this;
    const scale = this.scale.map((s, c) =>
      s > 0 && damped ? s : squares[c] > 0 ? 1 / Math.sqrt(squares[c]) : 1);
    return solveByRows(model, damping, scale, held, delta);
  }

  /** By how much the cost could fall further in directions whose pivots vanished. */
  #hiddenDecrease(): number {
    const { model, g, damping, held, delta, image, squares } = this;
    const share = vanishingShare(model.m);
    model.product(delta, image);
    let hidden = 0;
    for (let c = 0; c < model.m; ++c) {
      if (held[c] !== 0 || !(squares[c] > 0)) continue;
      hidden += (g[c] + image[c] + damping[c] * delta[c]) ** 2 / (2 * share * squares[c]);
    }
    return hidden;
  }

  #decrease(): number {
    const { model, g, delta, image } = this;
    delta[model.m] = 0;
    const square = model.product(delta, image);
    this.slope = dot(g, delta, model.m);
    return -this.slope - square / 2;
  }

  cost(x: Float64Array): number | Promise<number> {
    return this.model.cost(x);
  }

  accept(x: Float64Array): void {
    x.set(this.trial);
  }

  move(x: Float64Array, length: number): number | Promise<number> {
    return this.#move(x, length);
  }

  #move(x: Float64Array, length: number): number {
    this.length = length;
    this.model.plus(x, this.delta, length, this.trial);
    return this.model.cost(this.trial);
  }

  /** Tries a step, whose end is then `trial`. */
  async tryStep(x: Float64Array, cost: number, lambda: number, tolerance: number, paused: Pause): Promise<Trial> {
    this.#damp(lambda);
    const request = { tolerance, maxIterations: this.options.maxLinearIterations, inEnergy: !this.isLoose };
    const step = noStep(), isExact = lambda === 0;
    const iterations = await this.#solve(request, isExact, paused);
    step.hidden = this.hidden;
    if (iterations < 0) return step;
    step.iterations = iterations;
    const decrease = this.#decrease();
    if (!Number.isFinite(decrease)) return step;
    step.decrease = decrease;
    step.trialCost = this.#move(x, 1);
    if (this.model.corrects && !isExact && this.factored !== undefined && !this.options.reuseFactor)
      this.#correct(x, cost, step);
    if (this.slope < 0) step.dampedShare = 2 * decrease / -this.slope - 1;
    if (this.model.bounds !== undefined) await this.search(x, cost, step);
    return step;
  }

  /**
   * Corrects a trial that gained little by its second-order error, and keeps the better one.
   *
   * With w = r(x + δ) − r − J δ, the step δ − (JᵀJ + λD)⁻¹ Jᵀ w follows a curved valley that the line
   * leaves. Source: Transtrum and Sethna, Improvements to the Levenberg-Marquardt algorithm for
   * nonlinear least-squares minimization, 2012.
   */
  #correct(x: Float64Array, cost: number, step: Trial): void {
    const { model, delta, image } = this;
    if (!(step.decrease > 0) || !(cost - step.trialCost < 0.75 * step.decrease)) return;
    const whole = delta.slice();
    model.transposed(model.curvature(delta, this.trial), image);
    for (let c = 0; c < model.m; ++c) image[c] = this.held[c] === 0 ? -image[c] : 0;
    this.factor?.solve(image);
    for (let c = 0; c < model.m; ++c) delta[c] += image[c];
    const other = this.#move(x, 1);
    if (other < step.trialCost) {
      step.trialCost = other;
      this.slope = dot(this.g, delta, model.m);
    } else {
      delta.set(whole);
      this.#move(x, 1);
    }
  }

  /** Shortens a step within bounds until the cost falls enough. */
  async search(x: Float64Array, cost: number, step: Trial): Promise<void> {
    const noise = 64 * this.unit * Math.abs(cost);
    const hidden = Math.abs(step.trialCost - cost) <= noise && Math.abs(this.slope) <= noise;
    let length = 1;
    for (let trials = 0; !(step.trialCost <= cost + 1e-4 * this.slope * length); ++trials) {
      if (trials === 20 || length < (hidden ? 1e-3 : 0)) {
        step.trialCost = await this.move(x, 1);
        return;
      }
      const lowest = parabolaMinimiser(this.slope, length, step.trialCost - cost);
      const wanted = Number.isFinite(lowest) ? lowest : length / 2;
      length = Math.min(Math.max(wanted, 1e-3 * length), 0.6 * length);
      step.trialCost = await this.move(x, length);
    }
  }
}

/** Ends steps in float32, but no solve. */
const outOfReach = verdict("no_convergence", "float32");

/**
 * Minimises from x, which then holds the last accepted point, and yields each step.
 *
 * @param stepper as `instead` makes them
 * @param changed called with the stepper before each step: true if the caller has changed numbers
 *   since the last call
 * @param instead called with an error of the stepper's: makes another one, or throws the error
 * @param finer makes the stepper that goes on where one ends that is rough, and confirms that end
 * @param fail makes the error of a code and a message
 */
export async function* minimise(
    stepper: Stepper, x: Float64Array, options: Options, changed: (stepper: Stepper) => boolean,
    instead: (error: unknown) => Stepper, finer: () => Promise<Stepper>,
    fail: (code: TopogradError["code"], message: string) => TopogradError): AsyncGenerator<Step, Summary, void> {
  const turns = turnsOf(options.signal), { seconds } = turns;
  let aborted = false;
  const paused = async () => aborted = await turns.paused();
  const lost = new LostColumns();
  const makeRules = () =>
    new Rules(options, stepper.isLoose, stepper.few, stepper.unit, stepper.curvature !== undefined);
  let rules = makeRules(), point = noPoint, iteration = 0, linear = 0;
  let end = undefined as Verdict | undefined;  // that closures set
  let initial = NaN, begin = x, left = x;      // the first cost; x at the start and before a turn
  let looked = NaN;                            // cost at leaveSaddle()
  let moved = false;                           // a step was accepted
  let radius: number | undefined;              // where the last step was accepted
  const enter = async (cost: number) => {
    point = await stepper.linearize(x, cost);
    rules.setPoint(point, initial);
  };
  const open = async (least = 0): Promise<void> => {
    const cost = await stepper.cost(x);
    initial = Math.max(least, cost);
    begin = x.slice();
    lost.open = moved = false;
    rules = makeRules();
    let wrong = Number.isFinite(cost) ? undefined : `the cost of the start is ${cost}`;
    if (wrong === undefined) {
      await enter(cost);
      const underflows = cost === 0 && point.gradientMax === 0 && stepper.model.underflows();
      if (!Number.isFinite(point.gradientMax)) wrong = "a derivative is not finite at the start";
      else if (isOutOfRange(point) || underflows) wrong = outOfRange;
    }
    if (wrong === undefined) return rules.openPoint();
    if (!stepper.isRough) throw fail("nonfinite", wrong);
    await refine();
  };
  /** Goes on with the finer stepper from the last accepted point. */
  const refine = async () => {
    stepper = await finer();
    changed(stepper);
    await open(Number.isFinite(initial) ? initial : 0);
    if (radius !== undefined) rules.region.radius = Math.min(radius, rules.region.largest);
  };
  /** Does work; if the stepper fails, another one goes on from the last accepted point. */
  const guarded = async <T>(work: () => T | Promise<T>): Promise<T | undefined> => {
    try {
      return await work();
    } catch (error) {
      stepper = instead(error);
      changed(stepper);
      await open();
      return undefined;
    }
  };
  /** Asks second derivatives what is left to gain. */
  const askExactly = async (asked?: [column: number, curvature: number][]) => {
    const gain = await stepper.curvature?.gain(x, point, asked) ?? Infinity;
    await enter(point.cost);
    rules.setExactGain(gain);
  };
  const findExactGain = async (change: number) => {
    if (rules.needsExactGain(change)) await askExactly();
  };
  /** Asks a step without damping, where one costs little, whether it contradicts an end. */
  const confirmed = async (claimed: Verdict | undefined): Promise<Verdict | undefined> => {
    const { functionTolerance, parameterTolerance } = options;
    if (!claimed?.contestable || !stepper.few || !(Math.max(functionTolerance, parameterTolerance) > 0))
      return claimed;
    const undamped = await stepper.tryStep(x, point.cost, 0, options.linearTolerance, paused);
    const says = rules.judgeUndamped(undamped);
    if (says === "agrees") return claimed;
    if (says === "unsettled") {
      if (!rules.curved || stepper.model.hasCorners) return claimed;
      await askExactly();
      if (rules.exactEnd !== undefined) return claimed;
      rules.unsettled = undamped.decrease;
    }
    if (iteration < options.maxIterations) return undefined;
    return point.cost <= 1e-20 * initial ? claimed : outOfIterations(options);
  };
  const findNoise = () => {
    if (!stepper.isRough && rules.needsRowNoise) rules.setRowNoise(stepper.model.noise(x));
  };
  const moveTo = async (to: Float64Array) => {
    x.set(to);
    await enter(await stepper.cost(x));
  };
  const beginAgain = async (cost: number) => {
    stepper.forget();
    rules = makeRules();
    await enter(cost);
    rules.openPoint();
    end = undefined;
  };
  /** Goes on with these columns where they began, if they were there. */
  const turn = async (here: Verdict, columns: number[], squares: Float64Array) => {
    if (!lost.mayTurn || iteration >= options.maxIterations) return false;
    const { cost } = point, { scalarOf } = stepper.model;
    for (const c of columns) x[scalarOf[c]] = begin[scalarOf[c]];
    await moveTo(x);
    const known = Number.isFinite(point.cost) && Number.isFinite(point.gradientMax) && !isOutOfRange(point);
    if (!known || !columns.some((c) => LostColumns.isLost(squares[c], stepper.squares[c]))) {
      await moveTo(left);
      return false;
    }
    lost.turn(cost, here);
    await beginAgain(point.cost);
    return true;
  };
  /** At an end, or where steps are stuck: true if the solve goes on from another point. */
  const reconsider = async () => {
    const ended = end !== undefined, converged = end?.status === "convergence";
    if (!(stepper.few || stepper.factor !== undefined) || (ended && !converged && !lost.open)) return false;
    const { squares, model } = stepper, columns: number[] = [];
    for (let c = 0; c < model.m && (converged || !ended); ++c) {
      const k = model.scalarOf[c];
      if (k >= 0 && LostColumns.mayBeLost(squares[c], x[k] - begin[k], point.cost)) columns.push(c);
    }
    // Second derivatives may say of each that the cost would be higher with it back where it began.
    if (columns.length > 0 && rules.curved) {
      await askExactly(columns.map((c) => {
        const way = x[model.scalarOf[c]] - begin[model.scalarOf[c]];
        return [c, 2 * options.functionTolerance * point.cost / (way * way)];
      }));
      if (rules.exactEnd !== undefined) {
        columns.length = 0;
        end ??= rules.exactEnd;
      }
    }
    if (end === undefined && columns.length === 0) return false;
    const here = end ?? lostColumns;
    if (lost.open) {
      const better = lost.settle(point.cost, here, columns.length > 0, options.functionTolerance);
      if (!better) await moveTo(left);
      if (end !== undefined || !better) end = lost.end;
      if (!better) return false;
    }
    left = x.slice();
    return columns.length > 0 && turn(here, columns, squares.slice());
  };
  /** At an end or where steps are stuck: true if the solve goes on from a better point beside this one. */
  const leaveSaddle = async () => {
    const { squares, model, pinned } = stepper, { cost } = point;
    if ((end !== undefined && end.status !== "convergence" && rules.unsettled === 0) || stepper.isRough ||
        looked === cost || !(cost > 0) || iteration >= options.maxIterations)
      return false;
    looked = cost;
    const flat: number[] = [], from = x.slice(), nowhere = !moved && point.gradientMax === 0;
    for (let c = 0; c < model.m; ++c) {
      const k = model.scalarOf[c], size = Math.max(Math.abs(x[k]), Math.abs(x[k] - begin[k]));
      if (k >= 0 && pinned[c] === 0 && (nowhere || LostColumns.hasVanished(squares[c], size, cost))) flat.push(k);
    }
    const dependent = flat.length === 0;
    if (dependent && !(end !== undefined && stepper.curvature?.isDependent)) return false;
    const least = Math.max(rules.leastContradiction, 64 * stepper.unit * cost);
    let best = await stepper.curvature?.escape(x, point, least, dependent);
    if (best === undefined && !dependent) {
      const move = (direction: Direction, length: number) => {
        x.set(from);
        for (const [k, factor] of direction) {
          x[k] += factor * length;
          if (model.bounds !== undefined)
            x[k] = Math.min(Math.max(x[k], model.bounds.lower[k]), model.bounds.upper[k]);
        }
      };
      const found = await stepBeside(flat, cost, least, (...step) => (move(...step), stepper.cost(x)));
      if (found !== undefined) {
        move(found.direction, found.length);
        best = { x: x.slice(), cost: await stepper.cost(x) };
      }
    }
    x.set(best?.x ?? from);
    if (best === undefined) {
      await enter(await stepper.cost(x));
      return false;
    }
    ++iteration;
    moved = true;
    await beginAgain(best.cost);
    await limits();
    return true;
  };
  /** A step of second derivatives: true if it is taken. */
  const curve = async () => {
    const before = point.cost, found = await stepper.curvature?.step(x, point, rules.exactTries);
    if (rules.acceptsExact(found === undefined ? 0 : before - found.cost) && found !== undefined) {
      x.set(found.x);
      await enter(found.cost);
      rules.openPoint();
      return moved = true;
    }
    await enter(before);
    return false;
  };
  /** One step with its decision; undefined if the caller has ended the solve. */
  const advance = async (): Promise<Step | undefined> => {
    if (changed(stepper)) {
      await open();
      end = rules.checkLimits(seconds(), iteration);
      if (end !== undefined) return undefined;
    }
    const told = async (accepted: boolean, linearIterations: number): Promise<Step> => {
      end ??= await confirmed(rules.checkLimits(seconds(), iteration));
      while ((end !== undefined || rules.isStuck) && await reconsider())
        end = await confirmed(rules.checkLimits(seconds(), iteration));
      if (end === undefined && rules.isStuck) await leaveSaddle();
      return { iteration, cost: point.cost, accepted, gradient: point.gradientMax,
               radius: rules.region.radius, linearIterations, seconds: seconds() };
    };
    if (rules.wantsExactStep) {
      if (await curve()) {
        ++iteration;
        return told(true, 0);
      }
      end = rules.unsettledEnd;
      if (end !== undefined) return undefined;
    }
    const step = await stepper.tryStep(x, point.cost, rules.lambda, rules.forcing.tolerance, paused);
    if (aborted) return undefined;
    if (stepper.model.bounds === undefined) await rescale(stepper, rules, x, step);
    ++iteration;
    linear += step.iterations;
    const facts = rules.judge(step), accepted = rules.accepts(facts);
    const hidden = stepper.isRough && !(facts.gain > 0.5 && facts.gain < 2) && Math.abs(step.decrease) <= rules.noise();
    if (accepted) {
      const before = point;
      moved = true;
      stepper.accept(x);
      rules.take(facts);
      ({ radius } = rules.region);
      await enter(step.trialCost);
      await findExactGain(facts.change);
      if (Math.abs(facts.change) <= options.functionTolerance * before.cost) findNoise();
      end = await confirmed(rules.afterTake(facts, step, before));
      rules.openPoint();
      if (!Number.isFinite(point.gradientMax))
        end = verdict("failure", "derivatives are not finite at an accepted point");
      else if (isOutOfRange(point)) end = verdict("failure", outOfRange);
    } else {
      if (facts.valid) await findExactGain(facts.change);
      findNoise();
      end = await confirmed(rules.refuse(facts, step));
    }
    // What rounding of float32 may hide is for float64 to find.
    if (hidden) end = outOfReach;
    return told(accepted, step.iterations);
  };
  changed(stepper);
  await guarded(open);
  const first = initial, limits = async () => end = await confirmed(rules.checkLimits(seconds(), iteration));
  await limits();
  for (;;) {
    if (end !== undefined) {
      if (!end.stopped && changed(stepper)) {  // during the last step
        await guarded(open);
        await limits();
        continue;
      }
      if (await guarded(leaveSaddle)) continue;
      if (end?.stopped || !stepper.isRough) break;
      await guarded(refine);
      await limits();
      continue;
    }
    await guarded(paused);
    if (aborted) break;
    const told = await guarded(advance);
    if (told !== undefined) yield told;
  }
  if (end === undefined && lost.open && !lost.settle(point.cost, undefined, false, 0)) await moveTo(left);
  end ??= verdict("aborted", "the caller ended the solve");
  return { status: end.status, message: end.message, iterations: iteration,
           linearIterations: linear, initialCost: first,
           finalCost: stepper.isRough ? stepper.model.cost(x) : point.cost,
           seconds: seconds(), device: stepper.device,
           linearSolver: stepper.factor === undefined ? "cg" : "factor" };
}

async function rescale(stepper: Stepper, rules: Rules, x: Float64Array, step: Trial): Promise<void> {
  const length = rules.otherLength(step);
  if (length === undefined) return;
  const cost = await stepper.move(x, length);
  if (!(cost < step.trialCost)) {
    await stepper.move(x, 1);
    return;
  }
  if (length < 1) step.decrease *= length * (2 - length);
  step.trialCost = cost;
}
