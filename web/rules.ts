// What a step of least squares leads to: acceptance, the next damping, and the end.
import type { SolveOptions, Summary } from "./topograd.js";

/** Options of a solve, with their defaults. Any object with a flag can end it. */
export interface Options extends Required<Omit<SolveOptions, "signal" | "reuseFactor">> {
  reuseFactor?: boolean;
  signal?: { readonly aborted: boolean };
}

/** Numbers of a linearised point: its cost, norms of the gradient, and of x and the last step in scaled columns. */
export interface Point {
  cost: number;
  gradientMax: number;
  gradientNorm: number;
  scaledGradientMax: number;
  scaledXNorm: number;
  scaledStepNorm: number;
}

/** A step before its decision. `decrease` is NaN if there is none. */
export interface Trial {
  decrease: number;
  trialCost: number;
  /** By how much the cost could fall in directions that the step leaves out. */
  hidden: number;
  dampedShare: number;
  iterations: number;
}

/** The change of the cost by a step, and its share of what the step promised. */
export interface Facts {
  valid: boolean;
  nonfinite: boolean;
  change: number;
  gain: number;
}

/** An end of a solve. */
export interface Verdict {
  readonly status: Summary["status"];
  readonly message: string;
  /** By a limit. */
  readonly stopped?: boolean;
  /** A step without damping may contradict it. */
  readonly contestable?: boolean;
}

export const noPoint: Point = { cost: NaN, gradientMax: NaN, gradientNorm: NaN, scaledGradientMax: NaN,
                                scaledXNorm: NaN, scaledStepNorm: NaN };
export function noStep(): Trial {
  return { decrease: NaN, trialCost: NaN, hidden: 0, dampedShare: NaN, iterations: 0 };
}

/** Damping at the level of rounding: a Gauss-Newton step that a singular block cannot break. */
const undampedLambda = 1e-15;
/** The largest radius that the solve extends the region to, and most steps until it does so again. */
const mostRadius = 1e36, mostWaits = 1024;
/** Steps without a gain after which something other than their length may be wrong. */
const stuck = 3;
/** Steps that damping shortens before one of second derivatives, which brings so many times what the last one did. */
const mostDampedSteps = 8, muchMore = 10;
/** Most dampings of such a step. */
const mostTries = 11;

/** Squares that leave the range of numbers say nothing. */
export const outOfRange = "squares of residuals or derivatives underflow or overflow: scale the " +
  "residuals or the unknowns";
export function isOutOfRange(point: Point): boolean {
  return point.scaledGradientMax === Infinity ||
         (point.gradientMax > 0 && point.scaledGradientMax === 0 && point.scaledXNorm === 0);
}

export const defaults: Omit<Options, "linearSolver" | "forcing"> = {
  method: "levenberg_marquardt",
  maxIterations: 50,
  timeLimitSeconds: 1e9,
  functionTolerance: 1e-6,
  gradientTolerance: 1e-10,
  parameterTolerance: 1e-8,
  initialTrustRegionRadius: 1e4,
  minTrustRegionRadius: 1e-32,
  maxTrustRegionRadius: 1e16,
  minRelativeDecrease: 1e-3,
  minLmDiagonal: 1e-6,
  maxLmDiagonal: 1e32,
  linearTolerance: 1e-5,
  maxLinearIterations: 500,
  maxEscapes: 3,
  maxLbfgsRank: 20,
};

function residualNorm(cost: number): number {
  return Math.sqrt(2 * Math.max(cost, 0));
}

/** Where a parabola with this slope at 0 that changes by `change` at 1 is lowest, or NaN. */
export function parabolaMinimiser(slope: number, length: number, change: number): number {
  const bend = change - slope * length;
  return Number.isFinite(bend) && bend > 0 ? -slope * length * length / (2 * bend) : NaN;
}

/**
 * The tolerance of conjugate gradients, from the rate at which the gradient falls.
 *
 * Source: Eisenstat, Walker, Choosing the forcing terms in an inexact Newton method, SIAM J. Sci.
 * Comput. 17 (1996), choice 2.
 */
class Forcing {
  readonly loose: boolean;
  readonly tightest: number;
  tolerance: number;
  loosest: number;
  last = 0;

  constructor(loose: boolean, tightest: number) {
    this.loose = loose;
    this.tightest = this.tolerance = tightest;
    this.loosest = Math.max(tightest, 0.5);
  }
  moved(norm: number): void {
    const last = this.last;
    this.last = norm;
    if (!this.loose || !(last > 0) || !Number.isFinite(norm)) return;
    let next = 0.9 * (norm / last) ** 2;
    const bound = 0.9 * this.tolerance ** 2;
    if (bound > 0.1) next = Math.max(next, bound);
    this.tolerance = Math.min(Math.max(next, this.tightest), this.loosest);
  }
  refused(): void {
    if (this.loose) this.tolerance = Math.max(this.tightest, 0.1 * this.tolerance);
  }
  /** True if the last step was solved for exactly enough to be the last one. */
  trustsLast(): boolean {
    if (!this.loose || this.tolerance <= Math.max(this.tightest, 1e-2)) return true;
    this.loosest = Math.max(this.tightest, 0.1 * this.tolerance);
    return false;
  }
}

/** The radius of the trust region: 1 / radius is the damping. Source: as in Ceres Solver. */
class Region {
  radius: number;
  largest: number;
  shrink = 2;

  constructor(radius: number, largest: number) {
    this.radius = Math.min(radius, largest);
    this.largest = largest;
  }
  accepted(gain: number, slow: boolean): void {
    let growth = 1 / Math.max(1 / 3, 1 - (2 * gain - 1) ** 3);
    if (slow && gain > 0.7) growth = Math.min(3, 1.5 * growth);
    this.radius = Math.min(this.largest, this.radius * growth);
    this.shrink = 2;
  }
  widen(factor: number, most: number): boolean {
    if (!(factor * this.radius <= Math.min(this.largest, most))) return false;
    this.radius *= factor;
    this.shrink = 2;
    return true;
  }
  limit(share: number): void {
    this.largest = share * this.radius;
    this.radius = this.largest;
  }
  restart(radius: number): void {
    this.radius = radius;
    this.largest = Math.max(this.largest, radius);
    this.shrink = 2;
  }
  extend(most: number): void {
    this.radius = this.largest = Math.max(this.largest, Math.min(most, 3 * this.largest));
  }
  rejected(): void {
    this.radius /= this.shrink;
    this.shrink *= 2;
  }
  invalid(): void {
    this.radius /= 2;
  }
}

export function verdict(status: Verdict["status"], message: string): Verdict {
  return { status, message };
}
function stopped(message: string): Verdict {
  return { ...verdict("no_convergence", message), stopped: true };
}
export function outOfIterations(options: Options): Verdict {
  return stopped(`maximum number of iterations reached: ${options.maxIterations}`);
}
export function reached(what: string, value: number, bound: number, contestable = false,
                        status: Verdict["status"] = "convergence"): Verdict {
  const message = `${what} ${value.toExponential(6)} <= ${bound.toExponential(6)}`;
  return { ...verdict(status, message), contestable };
}

/** Share of a column's norm at which it has vanished, and most turns back from such points. */
const vanishedShare = 1e-12, mostTurns = 3;
export const lostColumns = verdict(
  "no_convergence",
  "unknowns have moved to where they do not change the residuals, and the solve found no better " +
    "point from where they did: begin elsewhere, or set bounds");

/**
 * Ends at which columns of the Jacobian have vanished: a step may carry an unknown out to a plateau,
 * where the gradient is zero. The solve then goes on with such unknowns put back to where they
 * began, where they had columns, and the better of both ends counts.
 */
export class LostColumns {
  turns = 0;
  open = false;  // it has gone on, and has not ended since
  cost = 0;      // of the end before
  end: Verdict | undefined;

  /** Over all the way that the unknown has moved, it would change residuals by their rounding. */
  static mayBeLost(square: number, moved: number, cost: number): boolean {
    return moved !== 0 && LostColumns.hasVanished(square, moved, cost);
  }
  /** Where an unknown changes by its own size, or by its way, residuals change by their rounding. */
  static hasVanished(square: number, size: number, cost: number): boolean {
    return square === 0 || (size !== 0 && vanishedShare ** 2 * 2 * cost >= square * size * size);
  }
  static isLost(square: number, squareAtStart: number): boolean {
    return square < vanishedShare ** 2 * squareAtStart;
  }
  get mayTurn(): boolean {
    return this.turns < mostTurns;
  }
  turn(cost: number, end: Verdict): void {
    ++this.turns;
    this.open = true;
    this.cost = cost;
    this.end = end;
  }
  /** The solve has ended again. True if this end counts; `end` is that of the one that counts. */
  settle(cost: number, end: Verdict | undefined, lost: boolean, share: number): boolean {
    this.open = false;
    const converged = end?.status === "convergence";
    const isSame = converged && cost <= (1 + share) * this.cost;
    const agrees = isSame && !lost && this.end === lostColumns;
    if (end?.status !== "failure" && (cost < this.cost || agrees)) {
      this.end = converged && lost && !this.mayTurn ? lostColumns : end;
      return true;
    }
    if (end === undefined || end.stopped) this.end = end;
    else if (!converged || (lost && !isSame)) this.end = lostColumns;
    return false;
  }
}

/** The promise of the first trial from a point. */
function noTrial(): { open: boolean; expected: number; nothingToGain: boolean; hidden: number } {
  return { open: true, expected: 0, nothingToGain: false, hidden: 0 };
}

/** Rules of a minimisation: plain numbers in, decisions out. They are those of the library. */
export class Rules {
  readonly o: Options;
  readonly unit: number;
  readonly few: boolean;
  readonly curved: boolean;
  readonly region: Region;
  readonly forcing: Forcing;
  readonly undampedFirst: boolean;
  exactGain = Infinity;                   // by second derivatives at the point; infinite until it is known
  exactWaits = 0;                         // points until it is asked for again
  mostExactWaits = 0;
  dampedSteps = 0;                        // steps in turn that damping shortens
  mostDampedSteps = mostDampedSteps;
  unsettled = 0;                          // what a step without damping promised in vain
  undamped: boolean;                      // the next trial
  point = noPoint;
  initialCost = NaN;
  leastNorm = NaN;
  optimality = NaN;
  leastCost = 0;
  lastChange = 0;
  refusedRadius = Infinity;
  invalidInARow = 0;
  idleInARow = 0;
  exact = false;                          // the next trial has no damping at all
  retries = false;                        // the damping grows from next to none, until a step is taken
  retried = Infinity;                     // the cost where it last began to
  waits = 0;                              // steps at the largest radius before the next such trial
  mostWaits = 0;
  rowNoise = Infinity;
  first = noTrial();

  /**
   * @param looseSystems conjugate gradients follow the gradient's decrease
   * @param few so few unknowns that a step without damping costs little
   * @param unit of rounding
   * @param curved second derivatives can be asked for
   */
  constructor(options: Options, looseSystems: boolean, few: boolean, unit: number, curved: boolean) {
    this.o = options;
    this.unit = unit;
    this.few = few;
    this.curved = curved;
    this.region = new Region(options.initialTrustRegionRadius, options.maxTrustRegionRadius);
    this.forcing = new Forcing(looseSystems, options.linearTolerance);
    this.undampedFirst = options.method === "gauss_newton";
    this.undamped = this.undampedFirst;
  }

  /** The largest cosine between the residuals and a column of the Jacobian, and its unit. */
  setPoint(point: Point, initialCost: number): void {
    this.point = point;
    this.rowNoise = this.exactGain = Infinity;
    this.initialCost = initialCost;
    const start = residualNorm(initialCost), here = residualNorm(point.cost);
    this.leastNorm = Math.max(here, 1e-10 * start);
    let least = Math.max(this.leastNorm, Math.min(1e-4 * start, 1e-5 * point.scaledXNorm));
    this.leastCost = least * least / 2;
    // Rounding of the start cannot be in residuals that are so small beside it.
    if (here < 1e-18 * start)
      least = Math.max(Math.min(least, 1e6 * here), 1e-5 * point.scaledXNorm);
    this.optimality = point.scaledGradientMax === 0 ? 0 : point.scaledGradientMax / least;
  }

  get lambda(): number {
    if (this.exact) return 0;
    return this.undamped ? undampedLambda : 1 / this.region.radius;
  }

  openPoint(): void {
    this.forcing.moved(this.point.gradientNorm);
    this.first.open = true;
    this.first.hidden = 0;
  }

  /** Changes of the cost that rounding may hide, by a bound for all rows. */
  #costNoise(): number {
    const { cost, scaledXNorm } = this.point, { unit } = this, ofTerms = unit * scaledXNorm;
    return 8 * unit * Math.abs(cost) + ofTerms * (residualNorm(cost) + ofTerms / 2);
  }

  /** The same by rows, where that is known: claims are compared with it. */
  noise(): number {
    return Math.min(this.#costNoise(), this.rowNoise);
  }

  get needsRowNoise(): boolean {
    return this.rowNoise === Infinity && this.noise() > this.o.functionTolerance * this.point.cost;
  }

  setRowNoise(noise: number): void {
    this.rowNoise = 8 * this.unit * Math.abs(this.point.cost) + noise;
  }

  /** The gradient contradicts an end: second derivatives decide, less often where they did in vain. */
  needsExactGain(change: number): boolean {
    const share = this.o.functionTolerance;
    if (!this.curved || this.exactGain !== Infinity || Math.abs(change) > share * this.point.cost ||
        this.#mayClaim(share))
      return false;
    return this.exactWaits === 0 || --this.exactWaits < 0;
  }

  setExactGain(gain: number): void {
    this.exactGain = gain;
    this.mostExactWaits = this.exactEnd === undefined ? Math.min(2 * this.mostExactWaits + 1, mostWaits) : 0;
    this.exactWaits = this.mostExactWaits;
  }

  /** The end where second derivatives leave nothing to gain. */
  get exactEnd(): Verdict | undefined {
    return this.#endOfExact(0, this.o.functionTolerance * this.point.cost);
  }

  #endOfExact(change: number, resolution: number): Verdict | undefined {
    if (!(this.exactGain <= resolution) || !(Math.abs(change) <= resolution)) return undefined;
    return reached("function tolerance reached: |predicted cost change|:", this.exactGain, resolution, true);
  }

  /** The next step is of second derivatives: only it settles a verdict, or the linear model is no good. */
  get wantsExactStep(): boolean {
    return this.unsettled > 0 ||
           (this.curved && !this.undampedFirst && this.dampedSteps >= this.mostDampedSteps);
  }

  get exactTries(): number {
    return this.unsettled > 0 ? mostTries : 1;
  }

  /** True if such a step is taken, which changes the cost by this much; 0: none was found. */
  acceptsExact(change: number): boolean {
    if (change > Math.max(this.o.functionTolerance * this.point.cost, muchMore * this.lastChange)) {
      this.lastChange = this.unsettled = 0;
      return true;
    }
    this.dampedSteps = 0;
    this.mostDampedSteps = Math.min(2 * this.mostDampedSteps, mostWaits);
    return false;
  }

  /** The end where a verdict was unsettled, and second derivatives know no step either. */
  get unsettledEnd(): Verdict | undefined {
    if (this.unsettled === 0) return undefined;
    return reached(
      "steps bring no more, but one without damping promises what the cost does not follow, and second " +
        "derivatives know no minimum here (a curved valley): predicted cost change:",
      this.unsettled, this.leastContradiction, false, "no_convergence");
  }

  /** True after some steps in turn that were refused or gained only rounding. */
  get isStuck(): boolean {
    return this.idleInARow === stuck;
  }

  checkLimits(seconds: number, iterations: number): Verdict | undefined {
    const o = this.o;
    if (this.optimality <= o.gradientTolerance && !this.retries && !this.#stillFalls()) {
      return reached("gradient tolerance reached: max |gradient| / (‖column‖ ‖residuals‖):",
                     this.optimality, o.gradientTolerance, true);
    }
    if (seconds >= o.timeLimitSeconds)
      return stopped(`time limit reached: ${o.timeLimitSeconds} s`);
    return iterations >= o.maxIterations ? outOfIterations(o) : this.#checkRadius();
  }

  #stillFalls(): boolean {
    const share = Math.max(this.o.functionTolerance, this.o.gradientTolerance);
    return this.lastChange > share * this.leastCost && this.point.cost > share * this.lastChange;
  }

  /** The end at a cost of 0: losses and squares are not negative, so no step lowers it. */
  get #endOfZero(): Verdict | undefined {
    return this.point.cost === 0 ? verdict("convergence", "the cost is 0, which no step lowers") : undefined;
  }

  #checkRadius(): Verdict | undefined {
    if (!(this.region.radius <= this.o.minTrustRegionRadius)) return undefined;
    if (this.#endOfZero !== undefined) return this.#endOfZero;
    const noise = this.noise();
    if (this.first.expected <= noise) {
      return reached("rounding of the cost reached: predicted cost change:", this.first.expected,
                     noise);
    }
    return verdict("no_convergence",
                   "minimum trust region radius reached: no step lowers the cost, but the gradient " +
                     "is not zero (a kink, or derivatives that do not match the residuals)");
  }

  /** A length that may serve better than 1, or undefined. */
  otherLength(step: Trial): number | undefined {
    const gain = (this.point.cost - step.trialCost) / step.decrease;
    const least = this.forcing.loose ? -1 : 1;
    if (!(step.decrease > 0) || !(gain > least)) return undefined;
    const lowest =
      parabolaMinimiser(-2 * step.decrease, 1, step.trialCost - this.point.cost);
    const length = Number.isNaN(lowest) ? 2 : Math.min(lowest, 2);
    return Math.abs(length - 1) < 0.2 ? undefined : length;
  }

  judge(step: Trial): Facts {
    const facts = { valid: false, nonfinite: false, change: 0, gain: 0 };
    if (!Number.isFinite(step.decrease)) return facts;
    facts.valid = step.decrease > 0;
    facts.change = this.point.cost - step.trialCost;
    if (!facts.valid) return facts;
    facts.nonfinite = !Number.isFinite(step.trialCost);
    if (!facts.nonfinite) facts.gain = facts.change / step.decrease;
    return facts;
  }

  accepts(facts: Facts): boolean {
    return facts.gain > this.o.minRelativeDecrease;
  }

  take(facts: Facts): void {
    this.invalidInARow = 0;
    this.idleInARow = facts.change > this.#costNoise() ? 0 : Math.min(this.idleInARow + 1, stuck + 1);
    this.exact = this.retries = false;
    const slow = this.lastChange > 0 && facts.change > 0.5 * this.lastChange;
    if (!this.undamped) this.region.accepted(facts.gain, slow);
    this.lastChange = facts.change;
    this.undamped = this.undampedFirst;
  }

  /** The end after an accepted step, or undefined. `before` is the point that it led from. */
  afterTake(facts: Facts, step: Trial, before: Point): Verdict | undefined {
    this.dampedSteps = step.dampedShare > 0.5 ? Math.min(this.dampedSteps + 1, mostWaits) : 0;
    const end = this.#checkTaken(facts, step, before);
    if (end === undefined) this.exact = this.#mayLeaveOutDamping(step, facts.change);
    return end;
  }

  #checkTaken(facts: Facts, step: Trial, before: Point): Verdict | undefined {
    const o = this.o, noise = this.#costNoise();
    const costBound = o.functionTolerance * before.cost;
    const length = this.point.scaledStepNorm, bound = o.parameterTolerance * residualNorm(before.cost);
    const promises = o.functionTolerance > 0 && step.decrease > costBound;
    const settles = Math.abs(facts.change) <= costBound;
    if (!settles) this.refusedRadius = Infinity;
    if (!settles && !(length <= bound && !promises)) return undefined;
    if (this.#hides(step, Math.max(costBound, noise))) {
      this.region.limit(0.25);
      return undefined;
    }
    const settled = reached("function tolerance reached: cost change:", facts.change, costBound, true);
    if (settles && this.exactGain <= costBound) return settled;
    if (!this.forcing.trustsLast() || this.#widen(step, facts.change, noise)) return undefined;
    if (!this.#mayClaim(Math.max(o.functionTolerance, settles ? 0 : o.parameterTolerance)))
      return undefined;
    if (promises && facts.gain < 0.05) return undefined;
    return settles ? settled : reached("parameter tolerance reached: step norm:", length, bound, true);
  }

  /**
   * Good steps at the largest radius may be short by that alone: then one without damping is tried.
   * If it is refused, the next ones wait for twice as many steps, and the radius grows on.
   */
  #mayLeaveOutDamping(step: Trial, change: number): boolean {
    const { region } = this;
    if (!this.few || region.radius < region.largest ||
        !this.#dampingHidesMore(step, change, this.#costNoise()))
      return false;
    if (this.waits === 0) return true;
    --this.waits;
    if (this.o.maxTrustRegionRadius >= defaults.maxTrustRegionRadius) region.extend(mostRadius);
    return false;
  }

  refuse(facts: Facts, step: Trial): Verdict | undefined {
    const o = this.o, first = this.first;
    this.idleInARow = Math.min(this.idleInARow + 1, stuck + 1);
    this.dampedSteps = Math.min(this.dampedSteps + 1, mostWaits);
    if (this.exact) {
      this.exact = false;
      this.waits = this.mostWaits = Math.min(2 * this.mostWaits + 1, mostWaits);
      return undefined;
    }
    const looks = o.functionTolerance > Number.EPSILON, noise = looks ? this.noise() : 0;
    const ofStep = noise > 0 ? this.#costNoise() : 0;
    const resolution = Math.max(o.functionTolerance * this.point.cost, noise);
    if (first.open) {
      first.expected = Math.abs(step.decrease);
      first.nothingToGain = first.expected === 0 ||
                            (first.expected <= resolution && this.forcing.trustsLast());
    }
    const hidden = Math.abs(facts.change) <= ofStep && step.decrease <= ofStep;
    const vanished = this.#hides(step, resolution);
    if (vanished) first.nothingToGain = false;
    if (facts.valid && !hidden)
      this.refusedRadius = Math.min(this.refusedRadius, this.region.radius);
    let end: Verdict | undefined;
    if (this.retries && facts.valid && step.decrease <= resolution) {
      // Steps with ever more damping promise no more than the tolerance, and none was taken.
      this.retries = false;
      end = reached("function tolerance reached: |predicted cost change|:", step.decrease,
                    resolution, true);
    }
    const widens = first.nothingToGain && this.#widen(step, facts.change, ofStep);
    if (!this.#waitsForMore(noise) && first.nothingToGain && Math.abs(facts.change) <= resolution &&
        !widens && this.#mayClaim(o.functionTolerance)) {
      end = reached("function tolerance reached: |predicted cost change|:", first.expected,
                    resolution, true);
    }
    end = this.#endOfExact(facts.change, resolution) ?? end ?? this.#endOfZero;
    if (facts.valid) {
      this.invalidInARow = 0;
      if (vanished) this.region.limit(0.25);
      else if (!this.undamped && !widens) this.region.rejected();
    } else {
      if (!this.undamped) this.region.invalid();
      if (++this.invalidInARow > 5) {
        end ??= verdict("failure", `${this.invalidInARow} steps in a row without a predicted decrease`);
      }
    }
    this.forcing.refused();
    this.undamped = false;
    first.open = false;
    return end;
  }

  /** Where only rounding of one row hides a promise, several refused steps count as one. */
  #waitsForMore(noise: number): boolean {
    const { first, point } = this;
    return first.expected > this.o.functionTolerance * point.cost && noise < 1e-3 * point.cost &&
           ++first.hidden < 4;
  }

  /** What a step without damping must take from the cost to contradict an end. */
  get leastContradiction(): number {
    return Math.max(this.o.functionTolerance * this.point.cost, this.noise(), 1e-42 * this.initialCost);
  }

  /**
   * What a step without damping says about an end: "agrees"; "goes on", with it or with damping from next
   * to none; or "unsettled" where it promises much in vain again, so that second derivatives decide.
   */
  judgeUndamped(undamped: Trial): "agrees" | "goes on" | "unsettled" {
    const { point, region } = this, facts = this.judge(undamped), most = 0.5 / undampedLambda;
    const least = this.leastContradiction;
    if (!facts.valid || !(undamped.decrease > least)) return "agrees";
    this.exact = !facts.nonfinite && facts.change > least && this.accepts(facts);
    if (!this.exact && !(this.retried - point.cost > least))
      return undamped.decrease > 100 * this.o.functionTolerance * point.cost ? "unsettled" : "agrees";
    if (this.exact) {
      if (region.radius < most) region.widen(most / region.radius, 2 * most);
      return "goes on";
    }
    // It is too long: the damping grows from next to none.
    if (this.o.maxTrustRegionRadius >= defaults.maxTrustRegionRadius) region.restart(mostRadius);
    this.retries = true;
    this.retried = point.cost;
    this.first = noTrial();
    this.refusedRadius = Infinity;
    this.undamped = false;
    return "goes on";
  }

  #hides(step: Trial, bound: number): boolean {
    return Math.min(step.hidden, this.point.cost) > bound &&
           (!this.undampedFirst || Number.isFinite(step.hidden));
  }

  #dampingHidesMore(step: Trial, change: number, noise: number): boolean {
    if (!(step.dampedShare > 0.05)) return false;
    const hidden = Math.abs(change) <= noise && step.decrease <= noise;
    return hidden || change >= 0.9 * step.decrease;
  }

  /** Goes on with less damping where that may gain more than the last steps have. */
  #widen(step: Trial, change: number, noise: number): boolean {
    return this.#dampingHidesMore(step, change, noise) &&
           this.region.widen(100, Math.min(this.refusedRadius, 1 / undampedLambda));
  }

  /** The claim that no step lowers the cost by more than this share, against the gradient. */
  #mayClaim(share: number): boolean {
    const { scaledGradientMax, cost } = this.point;
    if (!(scaledGradientMax > 10 * Math.sqrt(share) * this.leastNorm)) return true;
    if (this.exactGain <= share * cost) return true;
    return scaledGradientMax ** 2 <= this.noise();
  }
}
