// What a sum of squares hides from its gradient. Second derivatives, of few unknowns: what is left to gain, a
// step, and the direction in which the cost is curved downwards most. And lower costs beside a point whose
// columns have vanished. Rules and numbers are those of the library.
import { decompose } from "./eigen.js";
import { Energies } from "./energy.js";
import { factorDense, leastPivot } from "./linear.js";
import type { ResidualTerm } from "./model.js";
import type { Point } from "./rules.js";
import type { Stepper } from "./solver.js";

/** Unknowns up to which the Hessian is taken. */
export const mostCurved = 64;
/** Least pivots and eigenvalues of the Hessian, over the number of unknowns. */
const least = 64 * Number.EPSILON;
/** Share of the gradient that a step leaves where the model holds, and units of its rounding. */
const falls = 0.1, gradientUnits = 8;
/** Share by which a step may miss its promise, and the least share that one with damping brings. */
const off = 0.5, leastOfPromise = 0.1;
const mostDoublings = 100;

/** The cost to the second order, over n columns that move; `noise` is rounding of the gradient. */
interface Quadratic {
  readonly n: number;
  readonly columns: readonly number[];
  readonly hessian: Float64Array;
  readonly gradient: Float64Array;
  readonly squares: Float64Array;
  readonly noise: Float64Array;
}

/** A step and what it promises, the columns that do not count, and the square of a gradient by H⁻¹. */
interface Decrement {
  readonly flat: Uint8Array;
  readonly square: (g: Float64Array) => number;
  readonly promise: number;
  readonly step: Float64Array;
}

/** A point and its cost. */
export interface Place {
  readonly x: Float64Array;
  readonly cost: number;
}

/** The step −(H + damping D)⁻¹g and what it promises; undefined unless that matrix is positive definite. */
function decrement({ n, hessian, gradient, squares }: Quadratic, damping: number): Decrement | undefined {
  const l = hessian.slice(), flat = new Uint8Array(n);
  for (let k = 0; k < n; ++k) {
    l[k * n + k] += damping * squares[k];
    flat[k] = l.subarray(k * n, k * n + n).every((entry) => entry === 0) ? 1 : 0;
    if (flat[k] !== 0) l[k * n + k] = 1;
  }
  const { units, depends } = factorDense(l, n, least * n);
  if (depends.length > 0) return undefined;
  const half = (g: Float64Array) => {
    const y = units.map((unit, k) => unit * g[k]);
    for (let i = 0; i < n; ++i) {
      for (let k = 0; k < i; ++k) y[i] -= l[i * n + k] * y[k];
      y[i] /= l[i * n + i];
    }
    return y;
  };
  const square = (g: Float64Array) => half(g).reduce((sum, value) => sum + value * value, 0), y = half(gradient);
  for (let i = n; i-- > 0;) {
    for (let k = i + 1; k < n; ++k) y[i] -= l[k * n + i] * y[k];
    y[i] /= l[i * n + i];
  }
  return { flat, square, promise: square(gradient), step: y.map((value, k) => -units[k] * value) };
}

/** Second derivatives at the points of a stepper, which is to be linearised again after each call. */
export class Curvature {
  readonly stepper: Stepper;
  readonly energies: Energies<ResidualTerm>;

  constructor(stepper: Stepper) {
    this.stepper = stepper;
    this.energies = new Energies(stepper.model, "cg");
  }

  /** The cost to the second order, over the columns that move; undefined if there are none. */
  async #read(x: Float64Array, point: Point): Promise<Quadratic | undefined> {
    const { energies, stepper: { model, g, held, squares } } = this, { m } = model;
    const columns = Array.from(held.keys()).filter((c) => held[c] === 0), n = columns.length;
    if (n === 0) return undefined;
    await energies.evaluateHessians(x, false, () => false);
    const hessian = new Float64Array(n * n), unit = new Float64Array(m + 1), product = new Float64Array(m + 1);
    columns.forEach((column, k) => {
      unit[column] = 1;
      energies.product(unit, product);
      unit[column] = 0;
      columns.forEach((row, i) => hessian[i * n + k] = product[row]);
    });
    const rounding = gradientUnits * Number.EPSILON * (Math.sqrt(2 * point.cost) + point.scaledXNorm);
    const of = (numbers: Float64Array) => Float64Array.from(columns, (c) => numbers[c]);
    return { n, columns, hessian, gradient: of(g), squares: of(squares),
             noise: of(squares.map((square) => rounding * Math.sqrt(square))) };
  }

  #moved(x: Float64Array, { columns }: Quadratic, step: Float64Array): Float64Array {
    const { model } = this.stepper, delta = new Float64Array(model.m), to = x.slice();
    columns.forEach((c, k) => delta[c] = step[k]);
    model.plus(x, delta, 1, to);
    return to;
  }

  /** True if columns of the Jacobian depend on each other, as those of two terms that are the same do. */
  get isDependent(): boolean {
    const { model, held } = this.stepper, { m } = model, a: number[] = [];
    const unit = new Float64Array(m + 1), q = unit.slice();
    const free = Array.from(held.keys()).filter((c) => held[c] === 0);
    for (const column of free) {
      unit[column] = 1;
      model.product(unit, q);
      unit[column] = 0;
      for (const row of free) a.push(q[row]);
    }
    return factorDense(a, free.length, leastPivot).depends.length > 0;
  }

  #gradient(x: Float64Array, { columns }: Quadratic): Float64Array {
    const { model } = this.stepper, g = new Float64Array(model.m);
    model.linearize(x);
    model.gradient(g, g.slice());
    return Float64Array.from(columns, (c) => g[c]);
  }

  /**
   * ½ g·H⁻¹g, what is left to gain; infinite where the model does not hold as far as its step leads.
   *
   * @param asked columns, with the least curvature with which they are known: their own entries of the
   *   gradient have to fall, too
   */
  async gain(x: Float64Array, point: Point,
             asked: readonly [column: number, curvature: number][] = []): Promise<number> {
    const at = await this.#read(x, point);
    if (at === undefined) return Infinity;
    const found = decrement(at, 0) ?? decrement(at, 2 * least * at.n);
    if (found === undefined) return Infinity;
    const left = this.#gradient(this.#moved(x, at, found.step), at);
    const seen = left.map((value, k) => Math.abs(value) <= at.noise[k] ? 0 : value);
    const holds = left.every(Number.isFinite) && found.square(seen) <= falls * falls * found.promise;
    return holds && asked.every(([column, curvature]) => {
      const k = at.columns.indexOf(column);
      return k >= 0 && found.flat[k] === 0 && at.hessian[k * at.n + k] >= curvature &&
             Math.abs(left[k]) <= falls * Math.abs(at.gradient[k]);
    }) ? found.promise / 2 : Infinity;
  }

  /** The point to which the first damping leads that keeps its promise, and its cost; or undefined. */
  async step(x: Float64Array, point: Point, tries: number): Promise<Place | undefined> {
    const at = await this.#read(x, point), { model } = this.stepper;
    for (let k = 0; at !== undefined && k < tries; ++k) {
      const found = decrement(at, k === 0 ? 0 : 10 ** (k - 7));
      if (found === undefined) continue;
      const to = this.#moved(x, at, found.step), cost = model.cost(to);
      const gain = found.promise / 2, fall = point.cost - cost;
      const keeps = k > 0 ? fall >= leastOfPromise * gain : Math.abs(fall - gain) <= off * gain;
      if (keeps && this.#gradient(to, at).every(Number.isFinite)) return { x: to, cost };
    }
    return undefined;
  }

  /**
   * A point of a cost that is lower by `enough`, along the direction in which it is curved downwards most, in
   * units in which the largest entry of each row of H is 1; undefined where columns decide along it.
   */
  async escape(x: Float64Array, point: Point, enough: number, dependent: boolean): Promise<Place | undefined> {
    const at = await this.#read(x, point);
    if (at === undefined || !at.hessian.every(Number.isFinite)) return undefined;
    const { n, hessian } = at, scaled = hessian.slice();
    let units = new Float64Array(n).fill(1);
    for (let sweep = 0; sweep < 40; ++sweep) {
      units = units.map((unit, i) => {
        let largest = 0;
        for (let j = 0; j < n; ++j) largest = Math.max(largest, unit * Math.abs(hessian[i * n + j]) * units[j]);
        return largest > 0 ? unit / Math.sqrt(largest) : 0;
      });
    }
    for (let i = 0; i < n; ++i) for (let j = 0; j < n; ++j) scaled[i * n + j] *= units[i] * units[j];
    const values = new Float64Array(n);
    if (!scaled.every(Number.isFinite) || !decompose(n, scaled, values, new Float64Array(n))) return undefined;
    const lowest = values.indexOf(Math.min(...values)), curvature = values[lowest];
    if (!(curvature < -least * n)) return undefined;
    const direction = units.map((unit, k) => unit * scaled[k * n + lowest]);
    const { model } = this.stepper, delta = new Float64Array(model.m + 1);
    let slope = 0, along = 0;
    direction.forEach((value, k) => {
      slope += value * at.gradient[k];
      along += Math.abs(value) * Math.sqrt(at.squares[k]);
      delta[at.columns[k]] = value;
    });
    if ((dependent ? model.product(delta, delta.slice()) : along * along) > -curvature) return undefined;
    // To both sides, with steps that double while the cost falls.
    const first = Math.sqrt(2 * enough / -curvature) * (slope > 0 ? -1 : 1);
    let best: Place | undefined;
    for (const side of [first, -first]) {
      let last = point.cost, length = side;
      for (let doublings = 0; doublings < mostDoublings; ++doublings, length *= 2) {
        const to = x.slice();
        model.plus(x, delta, length, to);
        const cost = model.cost(to);
        if (cost < (best?.cost ?? point.cost - enough)) best = { x: to, cost };
        if (!(cost < last)) break;
        last = cost;
      }
    }
    return best !== undefined && this.#gradient(best.x, at).every(Number.isFinite) ? best : undefined;
  }
}

/** Share of the cost by which a step changes it, the exponent of the longest one, and most unknowns. */
const share = 1e-4, longest = 1000, mostUnknowns = 8;
/** Lengths that are tried, in units of the one that changes the cost, as exponents. */
const lengths = [12, 9, 6, 3, 0, -2, -4, -7, -10];

/** Scalars and by how much of the length each moves. */
export type Direction = (readonly [scalar: number, factor: number])[];

function directionsOf(unknowns: readonly number[]): Direction[] {
  const single = unknowns.slice(0, mostUnknowns).map((k): Direction => [[k, 1]]);
  if (unknowns.length === 1) return single;
  const together = [() => 1, (i: number) => 1 - 2 * (i % 2)];
  return [...single, ...together.map((factor) => unknowns.map((k, i) => [k, factor(i)] as const))];
}

/**
 * The best step along lists of scalars and factors, or undefined where none gains as much as `least`. Steps
 * are as long as it takes to change the cost by a share of it, so that units decide nothing.
 */
export async function stepBeside(
    unknowns: readonly number[], cost: number, least: number,
    costAt: (direction: Direction, length: number) => number | Promise<number>):
    Promise<{ direction: Direction; length: number } | undefined> {
  let best: { direction: Direction; length: number } | undefined, gain = least;
  const changes = (there: number) => !(Math.abs(there - cost) <= share * cost);
  for (const direction of directionsOf(unknowns))
    for (const sign of [1, -1]) {
      const at = (exponent: number) => costAt(direction, sign * 2 ** exponent);
      let low = -longest, high = longest;
      if (!changes(await at(high))) continue;
      while (high - low > 1) {
        const middle = Math.trunc((low + high) / 2);
        if (changes(await at(middle))) high = middle;
        else low = middle;
      }
      for (const more of lengths) {
        const gained = cost - await at(high + more);
        if (gained > gain) [gain, best] = [gained, { direction, length: sign * 2 ** (high + more) }];
      }
    }
  return best;
}
