// What a step of least squares leads to: acceptance, the next damping, and the end.

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
export function isOutOfRange(point) {
  return point.scaledGradientMax === Infinity ||
         (point.gradientMax > 0 && point.scaledGradientMax === 0 && point.scaledXNorm === 0);
}

export const defaults = {
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

function residualNorm(cost) {
  return Math.sqrt(2 * Math.max(cost, 0));
}

/** Where a parabola with this slope at 0 that changes by `change` at 1 is lowest, or NaN. */
export function parabolaMinimiser(slope, length, change) {
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
  constructor(loose, tightest) {
    this.loose = loose;
    this.tightest = this.tolerance = tightest;
    this.loosest = Math.max(tightest, 0.5);
    this.last = 0;
  }
  moved(norm) {
    const last = this.last;
    this.last = norm;
    if (!this.loose || !(last > 0) || !Number.isFinite(norm)) return;
    let next = 0.9 * (norm / last) ** 2;
    const bound = 0.9 * this.tolerance ** 2;
    if (bound > 0.1) next = Math.max(next, bound);
    this.tolerance = Math.min(Math.max(next, this.tightest), this.loosest);
  }
  refused() {
    if (this.loose) this.tolerance = Math.max(this.tightest, 0.1 * this.tolerance);
  }
  /** True if the last step was solved for exactly enough to be the last one. */
  trustsLast() {
    if (!this.loose || this.tolerance <= Math.max(this.tightest, 1e-2)) return true;
    this.loosest = Math.max(this.tightest, 0.1 * this.tolerance);
    return false;
  }
}

/** The radius of the trust region: 1 / radius is the damping. Source: as in Ceres Solver. */
class Region {
  constructor(radius, largest) {
    this.radius = Math.min(radius, largest);
    this.largest = largest;
    this.shrink = 2;
  }
  accepted(gain, slow) {
    let growth = 1 / Math.max(1 / 3, 1 - (2 * gain - 1) ** 3);
    if (slow && gain > 0.7) growth = Math.min(3, 1.5 * growth);
    this.radius = Math.min(this.largest, this.radius * growth);
    this.shrink = 2;
  }
  widen(factor, most) {
    if (!(factor * this.radius <= Math.min(this.largest, most))) return false;
    this.radius *= factor;
    this.shrink = 2;
    return true;
  }
  limit(share) {
    this.largest = share * this.radius;
    this.radius = this.largest;
  }
  restart(radius) {
    this.radius = radius;
    this.largest = Math.max(this.largest, radius);
    this.shrink = 2;
  }
  extend(most) {
    this.radius = this.largest = Math.max(this.largest, Math.min(most, 3 * this.largest));
  }
  rejected() {
    this.radius /= this.shrink;
    this.shrink *= 2;
  }
  invalid() {
    this.radius /= 2;
  }
}

export function verdict(status, message) {
  return { status, message };
}
function stopped(message) {
  return { ...verdict("no_convergence", message), stopped: true };
}
export function outOfIterations(options) {
  return stopped(`maximum number of iterations reached: ${options.maxIterations}`);
}
/** @param contestable a step without damping may contradict it */
export function reached(what, value, bound, contestable = false, status = "convergence") {
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
  constructor() {
    this.turns = 0;
    this.open = false;  // it has gone on, and has not ended since
    this.cost = 0;      // of the end before
    this.end = undefined;
  }
  /** Over all the way that the unknown has moved, it would change residuals by their rounding. */
  static mayBeLost(square, moved, cost) {
    return moved !== 0 && LostColumns.hasVanished(square, moved, cost);
  }
  /** Where an unknown changes by its own size, or by its way, residuals change by their rounding. */
  static hasVanished(square, size, cost) {
    return square === 0 || (size !== 0 && vanishedShare ** 2 * 2 * cost >= square * size * size);
  }
  static isLost(square, squareAtStart) {
    return square < vanishedShare ** 2 * squareAtStart;
  }
  get mayTurn() {
    return this.turns < mostTurns;
  }
  turn(cost, end) {
    ++this.turns;
    this.open = true;
    this.cost = cost;
    this.end = end;
  }
  /** The solve has ended again. True if this end counts; `end` is that of the one that counts. */
  settle(cost, end, lost, share) {
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

function noTrial() {
  return { open: true, expected: 0, nothingToGain: false, hidden: 0 };
}

/** Rules of a minimisation: plain numbers in, decisions out. They are those of the library. */
export class Rules {
  /**
   * @param looseSystems conjugate gradients follow the gradient's decrease
   * @param few so few unknowns that a step without damping costs little
   * @param unit of rounding
   * @param curved second derivatives can be asked for
   */
  constructor(options, looseSystems, few, unit, curved) {
    this.o = options;
    this.unit = unit;
    this.few = few;
    this.curved = curved;
    this.exactGain = Infinity;  // by second derivatives at the point; infinite until it is known
    this.exactWaits = this.mostExactWaits = 0;  // points until it is asked for again
    this.dampedSteps = 0;     // steps in turn that damping shortens
    this.mostDampedSteps = mostDampedSteps;
    this.unsettled = 0;       // what a step without damping promised in vain
    this.region = new Region(options.initialTrustRegionRadius, options.maxTrustRegionRadius);
    this.forcing = new Forcing(looseSystems, options.linearTolerance);
    this.undampedFirst = options.method === "gauss_newton";
    this.undamped = this.undampedFirst;  // the next trial
    this.point = undefined;
    this.optimality = NaN;
    this.leastCost = 0;
    this.lastChange = 0;
    this.refusedRadius = Infinity;
    this.invalidInARow = this.idleInARow = 0;
    this.exact = false;       // the next trial has no damping at all
    this.retries = false;     // the damping grows from next to none, until a step is taken
    this.retried = Infinity;  // the cost where it last began to
    this.waits = this.mostWaits = 0;  // steps at the largest radius before the next such trial
    this.rowNoise = Infinity;
    this.first = noTrial();
  }

  /** The largest cosine between the residuals and a column of the Jacobian, and its unit. */
  setPoint(point, initialCost) {
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

  get lambda() {
    if (this.exact) return 0;
    return this.undamped ? undampedLambda : 1 / this.region.radius;
  }

  openPoint() {
    this.forcing.moved(this.point.gradientNorm);
    this.first.open = true;
    this.first.hidden = 0;
  }

  /** Changes of the cost that rounding may hide, by a bound for all rows. */
  #costNoise() {
    const { cost, scaledXNorm } = this.point, { unit } = this, ofTerms = unit * scaledXNorm;
    return 8 * unit * Math.abs(cost) + ofTerms * (residualNorm(cost) + ofTerms / 2);
  }

  /** The same by rows, where that is known: claims are compared with it. */
  noise() {
    return Math.min(this.#costNoise(), this.rowNoise);
  }

  get needsRowNoise() {
    return this.rowNoise === Infinity && this.noise() > this.o.functionTolerance * this.point.cost;
  }

  setRowNoise(noise) {
    this.rowNoise = 8 * this.unit * Math.abs(this.point.cost) + noise;
  }

  /** The gradient contradicts an end: second derivatives decide, less often where they did in vain. */
  needsExactGain(change) {
    const share = this.o.functionTolerance;
    if (!this.curved || this.exactGain !== Infinity || Math.abs(change) > share * this.point.cost ||
        this.#mayClaim(share))
      return false;
    return this.exactWaits === 0 || --this.exactWaits < 0;
  }

  setExactGain(gain) {
    this.exactGain = gain;
    this.mostExactWaits = this.exactEnd === undefined ? Math.min(2 * this.mostExactWaits + 1, mostWaits) : 0;
    this.exactWaits = this.mostExactWaits;
  }

  /** The end where second derivatives leave nothing to gain. */
  get exactEnd() {
    return this.#endOfExact(0, this.o.functionTolerance * this.point.cost);
  }

  #endOfExact(change, resolution) {
    if (!(this.exactGain <= resolution) || !(Math.abs(change) <= resolution)) return undefined;
    return reached("function tolerance reached: |predicted cost change|:", this.exactGain, resolution, true);
  }

  /** The next step is of second derivatives: only it settles a verdict, or the linear model is no good. */
  get wantsExactStep() {
    return this.unsettled > 0 ||
           (this.curved && !this.undampedFirst && this.dampedSteps >= this.mostDampedSteps);
  }

  get exactTries() {
    return this.unsettled > 0 ? mostTries : 1;
  }

  /** True if such a step is taken, which changes the cost by this much; 0: none was found. */
  acceptsExact(change) {
    if (change > Math.max(this.o.functionTolerance * this.point.cost, muchMore * this.lastChange)) {
      this.lastChange = this.unsettled = 0;
      return true;
    }
    this.dampedSteps = 0;
    this.mostDampedSteps = Math.min(2 * this.mostDampedSteps, mostWaits);
    return false;
  }

  /** The end where a verdict was unsettled, and second derivatives know no step either. */
  get unsettledEnd() {
    if (this.unsettled === 0) return undefined;
    return reached(
      "steps bring no more, but one without damping promises what the cost does not follow, and second " +
        "derivatives know no minimum here (a curved valley): predicted cost change:",
      this.unsettled, this.leastContradiction, false, "no_convergence");
  }

  /** True after some steps in turn that were refused or gained only rounding. */
  get isStuck() {
    return this.idleInARow === stuck;
  }

  checkLimits(seconds, iterations) {
    const o = this.o;
    if (this.optimality <= o.gradientTolerance && !this.retries && !this.#stillFalls()) {
      return reached("gradient tolerance reached: max |gradient| / (‖column‖ ‖residuals‖):",
                     this.optimality, o.gradientTolerance, true);
    }
    if (seconds >= o.timeLimitSeconds)
      return stopped(`time limit reached: ${o.timeLimitSeconds} s`);
    return iterations >= o.maxIterations ? outOfIterations(o) : this.#checkRadius();
  }

  #stillFalls() {
    const share = Math.max(this.o.functionTolerance, this.o.gradientTolerance);
    return this.lastChange > share * this.leastCost && this.point.cost > share * this.lastChange;
  }

  #checkRadius() {
    if (!(this.region.radius <= this.o.minTrustRegionRadius)) return undefined;
    const noise = this.noise();
    if (this.first.expected <= noise) {
      return reached("rounding of the cost reached: predicted cost change:", this.first.expected,
                     noise);
    }
    return verdict("no_convergence",
                   "minimum trust region radius reached: no step lowers the cost, but the gradient " +
                     "is not zero (a kink, or derivatives that do not match the residuals)");
  }

  otherLength(step) {
    const gain = (this.point.cost - step.trialCost) / step.decrease;
    const least = this.forcing.loose ? -1 : 1;
    if (!(step.decrease > 0) || !(gain > least)) return undefined;
    const lowest =
      parabolaMinimiser(-2 * step.decrease, 1, step.trialCost - this.point.cost);
    const length = Number.isNaN(lowest) ? 2 : Math.min(lowest, 2);
    return Math.abs(length - 1) < 0.2 ? undefined : length;
  }

  judge(step) {
    const facts = { valid: false, nonfinite: false, change: 0, gain: 0 };
    if (!Number.isFinite(step.decrease)) return facts;
    facts.valid = step.decrease > 0;
    facts.change = this.point.cost - step.trialCost;
    if (!facts.valid) return facts;
    facts.nonfinite = !Number.isFinite(step.trialCost);
    if (!facts.nonfinite) facts.gain = facts.change / step.decrease;
    return facts;
  }

  accepts(facts) {
    return facts.gain > this.o.minRelativeDecrease;
  }

  take(facts) {
    this.invalidInARow = 0;
    this.idleInARow = facts.change > this.#costNoise() ? 0 : Math.min(this.idleInARow + 1, stuck + 1);
    this.exact = this.retries = false;
    const slow = this.lastChange > 0 && facts.change > 0.5 * this.lastChange;
    if (!this.undamped) this.region.accepted(facts.gain, slow);
    this.lastChange = facts.change;
    this.undamped = this.undampedFirst;
  }

  /** The end after an accepted step, or undefined. `before` is the point that it led from. */
  afterTake(facts, step, before) {
    this.dampedSteps = step.dampedShare > 0.5 ? Math.min(this.dampedSteps + 1, mostWaits) : 0;
    const end = this.#checkTaken(facts, step, before);
    if (end === undefined) this.exact = this.#mayLeaveOutDamping(step, facts.change);
    return end;
  }

  #checkTaken(facts, step, before) {
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
  #mayLeaveOutDamping(step, change) {
    const { region } = this;
    if (!this.few || region.radius < region.largest ||
        !this.#dampingHidesMore(step, change, this.#costNoise()))
      return false;
    if (this.waits === 0) return true;
    --this.waits;
    if (this.o.maxTrustRegionRadius >= defaults.maxTrustRegionRadius) region.extend(mostRadius);
    return false;
  }

  refuse(facts, step) {
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
    let end;
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
    end = this.#endOfExact(facts.change, resolution) ?? end;
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
  #waitsForMore(noise) {
    const { first, point } = this;
    return first.expected > this.o.functionTolerance * point.cost && noise < 1e-3 * point.cost &&
           ++first.hidden < 4;
  }

  /** What a step without damping must take from the cost to contradict an end. */
  get leastContradiction() {
    return Math.max(this.o.functionTolerance * this.point.cost, this.noise(), 1e-42 * this.initialCost);
  }

  /**
   * What a step without damping says about an end: "agrees"; "goes on", with it or with damping from next
   * to none; or "unsettled" where it promises much in vain again, so that second derivatives decide.
   */
  judgeUndamped(undamped) {
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

  #hides(step, bound) {
    return Math.min(step.hidden, this.point.cost) > bound &&
           (!this.undampedFirst || Number.isFinite(step.hidden));
  }

  #dampingHidesMore(step, change, noise) {
    if (!(step.dampedShare > 0.05)) return false;
    const hidden = Math.abs(change) <= noise && step.decrease <= noise;
    return hidden || change >= 0.9 * step.decrease;
  }

  /** Goes on with less damping where that may gain more than the last steps have. */
  #widen(step, change, noise) {
    return this.#dampingHidesMore(step, change, noise) &&
           this.region.widen(100, Math.min(this.refusedRadius, 1 / undampedLambda));
  }

  /** The claim that no step lowers the cost by more than this share, against the gradient. */
  #mayClaim(share) {
    const { scaledGradientMax, cost } = this.point;
    if (!(scaledGradientMax > 10 * Math.sqrt(share) * this.leastNorm)) return true;
    if (this.exactGain <= share * cost) return true;
    return scaledGradientMax ** 2 <= this.noise();
  }
}
