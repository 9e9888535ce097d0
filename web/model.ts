// A problem's numbers, and its residuals with their Jacobian in the coordinates of a step.

/** Widest block whose own matrix is factored; wider ones count as single numbers there. */
export const widestBlock = 12;

const none = new Float64Array(0);

/** Writes rows, a cost or derivatives of one instance to `out`, from its unknowns, data and uniforms. */
export type Kernel = (p: Float64Array, d: Float64Array, u: Float64Array, out: Float64Array) => void;
/** The same along a direction t of the unknowns. */
export type TangentKernel = (p: Float64Array, d: Float64Array, u: Float64Array, t: Float64Array,
                             out: Float64Array) => void;

/** An array of unknowns. */
export interface ParameterArray {
  readonly name: string;
  readonly offset: number;
  readonly width: number;
  readonly blocks: number;
}

/** Instances that share kernels. `index` has unknowns and uniforms by instance, `numbers` the data. */
export interface Instances {
  readonly parameters: number;
  readonly uniforms: number;
  readonly data: number;
  instances: number;
  index: Uint32Array;
  numbers: Float64Array;
}

interface TermBase extends Instances {
  readonly name: string;
  readonly rows: number;
  readonly cost: Kernel;
  /** Upper triangle of the Hessian, or its product with a direction. */
  readonly hessian: Kernel | undefined;
  readonly hvp: TangentKernel | undefined;
  /** By kernel, the names of the buffers that its shader reads. */
  readonly shaders?: { readonly jacobian: string[]; readonly cost?: string[] };
}
/** Residuals: rows with their derivatives. */
export interface ResidualTerm extends TermBase {
  readonly jacobian: Kernel;
}
/** An energy, or residuals beside energies: a gradient with the cost behind it. */
export interface EnergyTerm extends TermBase {
  readonly jacobian: Kernel | undefined;
  readonly gradient: Kernel;
}
export type Term = ResidualTerm | EnergyTerm;

/** Blocks of `width` numbers that move along `tangent` directions. */
export interface Manifold {
  readonly width: number;
  readonly tangent: number;
  readonly plus: TangentKernel;
  readonly basis: Kernel;
  readonly blocks: Uint32Array;
  readonly shaders?: { readonly plus: string[]; readonly basis: string[] };
}

/** A free block on a manifold: its first scalar, its first column and its basis. */
interface Moved {
  readonly at: number;
  readonly manifold: Manifold;
  readonly column: number;
  readonly basis: number;
}

/** The columns that each instance of a term meets, and what is evaluated of it. */
export interface List {
  readonly rows: number;
  readonly instances: number;
  readonly width: number;
  readonly columns: Int32Array;
  readonly positions: Int32Array;
  readonly residuals: Float64Array;
  readonly jacobian: Float64Array;
}

/** Evaluates kernels over the instances of terms, and moves points along steps. */
export class Model<T extends Term = Term> {
  readonly n: number;
  readonly arrays: readonly ParameterArray[];
  readonly terms: readonly T[];
  readonly manifolds: readonly Manifold[];
  readonly uniforms: Float64Array;
  readonly curved: Uint8Array;  // 1 in blocks on manifolds
  bounds: { readonly lower: Float64Array; readonly upper: Float64Array } | undefined;
  corrects = false;    // steps that gain little are corrected
  isCurved = false;    // there are second derivatives
  hasCorners = false;  // residuals have corners
  // free() sets the rest.
  m = 0;                           // columns
  columnOf = new Int32Array(0);    // by scalar; the first one of its block on manifolds
  scalarOf: number[] = [];         // by column; -1 on manifolds
  rowOfBasis = new Int32Array(0);  // by scalar
  tangentOf = new Uint8Array(0);   // by scalar
  moved: Moved[] = [];             // free blocks on manifolds
  nodes: number[] = [];            // first columns of blocks, with the number of columns at the end
  nodeOfBlock: number[] = [];
  bases = none;
  lists: List[] = [];

  constructor({ scalars, arrays, terms, manifolds, uniforms }: {
    scalars: number; arrays: readonly ParameterArray[]; terms: readonly T[]; manifolds: readonly Manifold[];
    uniforms: Float64Array;
  }) {
    this.n = scalars;
    this.arrays = arrays;
    this.terms = terms;
    this.manifolds = manifolds;
    this.uniforms = uniforms;
    this.curved = new Uint8Array(scalars);
    for (const { width, blocks } of manifolds)
      for (const at of blocks) this.curved.fill(1, at, at + width);
  }

  get rows(): number {
    return this.terms.reduce((sum, term) => sum + term.rows * term.instances, 0);
  }

  /** Calls `use` with the numbers that a kernel writes of each instance. */
  each(term: Instances, x: Float64Array, kernel: Kernel, outputs: number,
       use: (out: Float64Array, instance: number) => void): void {
    const { parameters, data, uniforms, index, numbers } = term;
    const p = new Float64Array(parameters), d = new Float64Array(data);
    const u = new Float64Array(uniforms), out = new Float64Array(outputs);
    let at = 0, from = 0;
    for (let i = 0; i < term.instances; ++i) {
      for (let k = 0; k < parameters; ++k) p[k] = x[index[at++]];
      for (let k = 0; k < uniforms; ++k) u[k] = this.uniforms[index[at++]];
      for (let k = 0; k < data; ++k) d[k] = numbers[from++];
      kernel(p, d, u, out);
      use(out, i);
    }
  }

  cost(x: Float64Array): number {
    let sum = 0, lost = 0;
    for (const term of this.terms) {
      // Neumaier's sum: the order of many small numbers costs no digits.
      this.each(term, x, term.cost, 1, (out) => {
        const value = out[0], next = sum + value;
        lost += Math.abs(sum) >= Math.abs(value) ? sum - next + value : value - next + sum;
        sum = next;
      });
    }
    return Number.isFinite(sum) ? sum + lost : sum;
  }

  /**
   * Numbers the coordinates of a step: those of scalars that are free, and of free blocks on
   * manifolds. Allocates what a linearisation writes.
   *
   * @param fixed 1 for scalars that stay; a block on a manifold stays if its first scalar does
   */
  free(fixed: Uint8Array): void {
    const n = this.n;
    this.columnOf = new Int32Array(n).fill(-1);
    this.scalarOf = [];
    this.rowOfBasis = new Int32Array(n).fill(-1);
    this.tangentOf = new Uint8Array(n).fill(1);
    const curves = new Map<number, Manifold>();
    let bases = 0;
    this.moved = [];
    for (const manifold of this.manifolds)
      for (const at of manifold.blocks) curves.set(at, manifold);
    this.nodes = [];
    this.nodeOfBlock = [];
    for (const { offset, width, blocks } of this.arrays) {
      for (let b = 0; b < blocks; ++b) {
        const at = offset + b * width, manifold = curves.get(at), first = this.scalarOf.length;
        if (manifold === undefined) {
          for (let k = at; k < at + width; ++k) {
            if (fixed[k] !== 0) continue;
            this.columnOf[k] = this.scalarOf.length;
            this.scalarOf.push(k);
          }
        } else if (fixed[at] === 0) {
          this.moved.push({ at, manifold, column: first, basis: bases });
          for (let k = 0; k < width; ++k) {
            this.columnOf[at + k] = first;
            this.rowOfBasis[at + k] = bases + k * width;
            this.tangentOf[at + k] = manifold.tangent;
          }
          for (let k = 0; k < manifold.tangent; ++k) this.scalarOf.push(-1);
          bases += width * width;
        }
        const some = this.scalarOf.length > first;
        this.nodeOfBlock.push(some ? this.nodes.length : -1);
        if (some) this.nodes.push(first);
      }
    }
    this.m = this.scalarOf.length;
    this.nodes.push(this.m);
    this.bases = new Float64Array(bases);
    this.lists = this.terms.map((term) => this.#list(term));
  }

  /** Spreads flags of scalars over columns; a manifold takes that of its first scalar. */
  columns(flags: Uint8Array, out: Uint8Array): void {
    for (let c = 0; c < this.m; ++c) if (this.scalarOf[c] >= 0) out[c] = flags[this.scalarOf[c]];
    for (const { at, manifold, column } of this.moved)
      out.fill(flags[at], column, column + manifold.tangent);
  }

  /** The columns that the instances of a term meet, each of them once. */
  #list({ rows, instances, parameters, uniforms, index }: Term): List {
    const stride = parameters + uniforms;
    const positions = new Int32Array(instances * parameters).fill(-1);
    const found: number[][] = [];
    let width = 0;
    for (let i = 0; i < instances; ++i) {
      const columns: number[] = [];
      for (let s = 0; s < parameters; ++s) {
        const scalar = index[i * stride + s], column = this.columnOf[scalar];
        if (column < 0) continue;
        let at = columns.indexOf(column);
        if (at < 0) {
          at = columns.length;
          for (let t = 0; t < this.tangentOf[scalar]; ++t) columns.push(column + t);
        }
        positions[i * parameters + s] = at;
      }
      found.push(columns);
      width = Math.max(width, columns.length);
    }
    const columns = new Int32Array(instances * width).fill(this.m);
    for (let i = 0; i < instances; ++i) columns.set(found[i], i * width);
    return {
      rows, instances, width, columns, positions,
      residuals: new Float64Array(instances * rows),
      jacobian: new Float64Array(instances * rows * width),
    };
  }

  moveBases(x: Float64Array): void {
    for (const { at, manifold, basis } of this.moved) {
      const size = manifold.width * manifold.width;
      manifold.basis(x.subarray(at, at + manifold.width), none, none,
                     this.bases.subarray(basis, basis + size));
    }
  }

  /** Evaluates the residuals and the Jacobian, corrected for losses. */
  linearize(this: Model<ResidualTerm>, x: Float64Array): void {
    this.moveBases(x);
    this.terms.forEach((term, k) => this.#fill(term, this.lists[k], x));
  }

  #fill(term: ResidualTerm, list: List, x: Float64Array): void {
    const { rows, parameters, uniforms, index } = term;
    const { width, positions, residuals, jacobian } = list;
    const { rowOfBasis, tangentOf, bases } = this;
    const stride = parameters + uniforms;
    jacobian.fill(0);
    this.each(term, x, term.jacobian, rows * (1 + parameters), (out, i) => {
      for (let r = 0; r < rows; ++r) residuals[i * rows + r] = out[r];
      for (let s = 0; s < parameters; ++s) {
        const position = positions[i * parameters + s];
        if (position < 0) continue;
        const scalar = index[i * stride + s], basis = rowOfBasis[scalar];
        let to = i * rows * width + position, from = rows + s;
        for (let r = 0; r < rows; ++r, to += width, from += parameters) {
          const value = out[from];
          if (basis < 0) {
            jacobian[to] += value;
          } else {
            for (let t = 0; t < tangentOf[scalar]; ++t) jacobian[to + t] += value * bases[basis + t];
          }
        }
      }
    });
  }

  /** Jᵀ r, and the squares of the norms of the columns of J. */
  gradient(g: Float64Array, squares: Float64Array): void {
    const sums = new Float64Array(this.m + 1), norms = new Float64Array(this.m + 1);
    for (const { rows, instances, width, columns, residuals, jacobian } of this.lists) {
      let j = 0;
      for (let i = 0; i < instances; ++i) {
        for (let r = 0; r < rows; ++r) {
          const value = residuals[i * rows + r];
          for (let c = 0; c < width; ++c, ++j) {
            const column = columns[i * width + c], entry = jacobian[j];
            sums[column] += entry * value;
            norms[column] += entry * entry;
          }
        }
      }
    }
    g.set(sums.subarray(0, this.m));
    squares.set(norms.subarray(0, this.m));
  }

  /**
   * What rounding of x may change in half the sum of squares: over the rows, ε |r| a + ½ (ε a)² with
   * a = √Σ (J_i x_i)². Infinite on manifolds.
   */
  noise(x: Float64Array): number {
    if (this.moved.length > 0) return Infinity;
    let sum = 0;
    for (const { rows, instances, width, columns, residuals, jacobian } of this.lists) {
      let j = 0;
      for (let row = 0; row < instances * rows; ++row) {
        const begin = Math.floor(row / rows) * width;
        let square = 0;
        for (let c = begin; c < begin + width; ++c, ++j)
          if (columns[c] < this.m) square += (jacobian[j] * x[this.scalarOf[columns[c]]]) ** 2;
        const noise = Number.EPSILON * Math.sqrt(square);
        sum += noise * (Math.abs(residuals[row]) + noise / 2);
      }
    }
    return sum;
  }

  /** w = r(x + δ) − r − J δ: the error of the linear model along a step, of all rows. */
  curvature(this: Model<ResidualTerm>, delta: Float64Array, trial: Float64Array): number[] {
    const w: number[] = [];
    this.terms.forEach((term, k) => {
      const { rows, width, columns, residuals, jacobian } = this.lists[k];
      this.each(term, trial, term.jacobian, rows * (1 + term.parameters), (out, i) => {
        for (let r = 0; r < rows; ++r) {
          let error = out[r] - residuals[i * rows + r];
          for (let c = i * width, j = (i * rows + r) * width; c < (i + 1) * width; ++c, ++j)
            error -= jacobian[j] * delta[columns[c]];
          w.push(error);
        }
      });
    });
    return w;
  }

  /** Jᵀ w into a vector with a number behind the columns. */
  transposed(w: readonly number[], to: Float64Array): void {
    to.fill(0);
    let row = 0;
    for (const { rows, instances, width, columns, jacobian } of this.lists) {
      for (let k = 0, j = 0; k < instances * rows; ++k, ++row) {
        const begin = Math.floor(k / rows) * width;
        for (let c = begin; c < begin + width; ++c, ++j) to[columns[c]] += jacobian[j] * w[row];
      }
    }
  }

  /** True if residuals that were evaluated last are not 0, and their squares are. */
  underflows(): boolean {
    let largest = 0;
    for (const { residuals } of this.lists)
      for (const r of residuals) largest = Math.max(largest, Math.abs(r));
    return largest > 0 && largest * largest < 2 ** -1022;
  }

  /**
   * q = JᵀJ v.
   *
   * @param v columns, and a zero behind them
   * @param q likewise; the number behind the columns is scratch
   * @returns the square of ‖J v‖
   */
  product(v: Float64Array, q: Float64Array): number {
    q.fill(0);
    let square = 0;
    for (const { rows, instances, width, columns, jacobian } of this.lists) {
      let j = 0;
      for (let i = 0; i < instances; ++i) {
        const begin = i * width, end = begin + width;
        for (let r = 0; r < rows; ++r, j += width) {
          let along = 0;
          for (let c = begin, k = j; c < end; ++c, ++k) along += jacobian[k] * v[columns[c]];
          for (let c = begin, k = j; c < end; ++c, ++k) q[columns[c]] += jacobian[k] * along;
          square += along * along;
        }
      }
    }
    return square;
  }

  /** The point after a step of this length, within bounds and on manifolds. */
  plus(x: Float64Array, delta: Float64Array, length: number, to: Float64Array): void {
    to.set(x);
    const { scalarOf } = this, { lower, upper } = this.bounds ?? {};
    for (let c = 0; c < this.m; ++c) {
      const k = scalarOf[c];
      if (k < 0) continue;
      let value = x[k] + length * delta[c];
      if (lower !== undefined && value < lower[k]) value = lower[k];
      if (upper !== undefined && value > upper[k]) value = upper[k];
      to[k] = value;
    }
    for (const { at, manifold, column } of this.moved) {
      const { width, tangent, plus } = manifold;
      const along = new Float64Array(width);
      let moves = false;
      for (let t = 0; t < tangent; ++t) {
        along[t] = length * delta[column + t];
        moves ||= along[t] !== 0;
      }
      if (moves) plus(x.subarray(at, at + width), none, none, along, to.subarray(at, at + width));
    }
  }

  /** True at a bound against which the gradient pushes. */
  isActive(column: number, x: Float64Array, g: Float64Array): boolean {
    const k = this.scalarOf[column];
    if (k < 0 || this.bounds === undefined) return false;
    const { lower, upper } = this.bounds;
    return (x[k] <= lower[k] && g[column] > 0) || (x[k] >= upper[k] && g[column] < 0);
  }
}
