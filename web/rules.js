// What a step of least squares leads to: acceptance, the next damping, and the end.

const unit = 2 ** -52;
/** Damping at the level of rounding: a Gauss-Newton step that a singular block cannot break. */
export const undampedLambda = 1e-15;

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
export function reached(what, value, bound) {
  return verdict("convergence",
                 `${what} ${value.toExponential(6)} <= ${bound.toExponential(6)}`);
}

/** Rules of a minimisation: plain numbers in, decisions out. They are those of the library. */
export class Rules {
  constructor(options, looseSystems) {
    this.o = options;
    this.region = new Region(options.initialTrustRegionRadius, options.maxTrustRegionRadius);
    this.forcing = new Forcing(looseSystems, options.linearTolerance);
    this.undampedFirst = options.method === "gauss_newton";
    this.undamped = this.undampedFirst;  // the next trial
    this.point = undefined;
    this.optimality = NaN;
    this.leastCost = 0;
    this.lastChange = 0;
    this.refusedRadius = Infinity;
    this.invalidInARow = 0;
    this.first = { open: true, expected: 0, nothingToGain: false };
  }

  /** The largest cosine between the residuals and a column of the Jacobian, and its unit. */
  setPoint(point, initialCost) {
    this.point = point;
    const start = residualNorm(initialCost);
    const hidden = Math.min(1e-4 * start, 1e-5 * point.scaledXNorm);
    const least = Math.max(residualNorm(point.cost), hidden, 1e-10 * start);
    this.optimality = point.scaledGradientMax === 0 ? 0 : point.scaledGradientMax / least;
    this.leastCost = least * least / 2;
  }

  /** The damping of the next trial. */
  get lambda() {
    return this.undamped ? undampedLambda : 1 / this.region.radius;
  }

  openPoint() {
    this.forcing.moved(this.point.gradientNorm);
    this.first.open = true;
  }

  /** Changes of the cost that rounding may hide. */
  noise() {
    const { cost, scaledXNorm } = this.point, ofTerms = unit * scaledXNorm;
    return 8 * unit * Math.abs(cost) + ofTerms * (residualNorm(cost) + ofTerms / 2);
  }

  checkLimits(seconds, iterations) {
    const o = this.o;
    if (this.optimality <= o.gradientTolerance && !this.#stillFalls()) {
      return reached("gradient tolerance reached: max |gradient| / (‖column‖ ‖residuals‖):",
                     this.optimality, o.gradientTolerance);
    }
    if (seconds >= o.timeLimitSeconds)
      return verdict("no_convergence", `time limit reached: ${o.timeLimitSeconds} s`);
    if (iterations >= o.maxIterations) {
      return verdict("no_convergence",
                     `maximum number of iterations reached: ${o.maxIterations}`);
    }
    return this.#checkRadius();
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

  /** The length at which a trial is tried once more, or undefined. */
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
    const slow = this.lastChange > 0 && facts.change > 0.5 * this.lastChange;
    if (!this.undamped) this.region.accepted(facts.gain, slow);
    this.lastChange = facts.change;
    this.undamped = this.undampedFirst;
  }

  /** The end after an accepted step, or undefined. `before` is the point that it led from. */
  afterTake(facts, step, before) {
    const o = this.o, noise = this.noise();
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
    if (!this.forcing.trustsLast() || this.#widen(step, facts.change, noise)) return undefined;
    if (!this.#mayClaim(Math.max(o.functionTolerance, settles ? 0 : o.parameterTolerance)))
      return undefined;
    if (promises && facts.gain < 0.05) return undefined;
    return settles
      ? { ...reached("function tolerance reached: cost change:", facts.change, costBound), byStep: true }
      : { ...reached("parameter tolerance reached: step norm:", length, bound), byStep: true };
  }

  refuse(facts, step) {
    const o = this.o, first = this.first;
    const noise = o.functionTolerance > Number.EPSILON ? this.noise() : 0;
    const resolution = Math.max(o.functionTolerance * this.point.cost, noise);
    if (first.open) {
      first.expected = Math.abs(step.decrease);
      first.nothingToGain = first.expected <= resolution && this.forcing.trustsLast();
    }
    const hidden = Math.abs(facts.change) <= noise && step.decrease <= noise;
    const vanished = this.#hides(step, resolution);
    if (vanished) first.nothingToGain = false;
    if (facts.valid && !hidden)
      this.refusedRadius = Math.min(this.refusedRadius, this.region.radius);
    const widens = first.nothingToGain && this.#widen(step, facts.change, noise);
    let end;
    if (first.nothingToGain && Math.abs(facts.change) <= resolution && !widens &&
        this.#mayClaim(o.functionTolerance)) {
      end = { ...reached("function tolerance reached: |predicted cost change|:", first.expected,
                         resolution), byStep: true };
    }
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

  /** Goes on with next to no damping if a step without it takes more from the cost. */
  goOnUndamped(undamped) {
    const facts = this.judge(undamped);
    const least = Math.max(this.o.functionTolerance * this.point.cost, this.noise());
    const most = 0.5 / undampedLambda;
    if (!facts.valid || facts.nonfinite || !(facts.change > least) || !(this.region.radius < most))
      return false;
    return this.region.widen(most / this.region.radius, 2 * most);
  }

  /** Pivots that vanished may hide more than this. */
  #hides(step, bound) {
    return Math.min(step.hidden, this.point.cost) > bound &&
           (!this.undampedFirst || Number.isFinite(step.hidden));
  }

  /** Goes on with less damping where that may gain more than the last steps have. */
  #widen(step, change, noise) {
    if (!(step.dampedShare > 0.05)) return false;
    const hidden = Math.abs(change) <= noise && step.decrease <= noise;
    if (!hidden && !(change >= 0.9 * step.decrease)) return false;
    return this.region.widen(100, Math.min(this.refusedRadius, 1 / undampedLambda));
  }

  /** The claim that no step lowers the cost by more than this share, against the gradient. */
  #mayClaim(share) {
    if (!(this.optimality > 10 * Math.sqrt(share))) return true;
    return this.point.scaledGradientMax ** 2 <= this.noise();
  }
}
