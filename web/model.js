// A problem's numbers, and its residuals with their Jacobian in the coordinates of a step.

/** Widest block whose own matrix is factored; wider ones count as single numbers there. */
export const widestBlock = 12;

const none = new Float64Array(0);

/** Evaluates kernels over the instances of terms, and moves points along steps. */
export class Model {
  constructor({ scalars, arrays, terms, manifolds, uniforms }) {
    this.n = scalars;
    this.arrays = arrays;
    this.terms = terms;
    this.manifolds = manifolds;
    this.uniforms = uniforms;
    this.lower = this.upper = undefined;
    this.corrects = false;  // steps that gain little are corrected
    this.isCurved = this.hasCorners = false;  // there are second derivatives; corners of residuals
    this.curved = new Uint8Array(scalars);  // 1 in blocks on manifolds
    for (const { width, blocks } of manifolds)
      for (const at of blocks) this.curved.fill(1, at, at + width);
  }

  get rows() {
    return this.terms.reduce((sum, term) => sum + term.rows * term.instances, 0);
  }

  setBounds(lower, upper) {
    this.lower = lower;
    this.upper = upper;
  }

  each(term, x, kernel, outputs, use) {
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

  cost(x) {
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
  free(fixed) {
    const n = this.n;
    this.columnOf = new Int32Array(n).fill(-1);  // the first one of its block on manifolds
    this.scalarOf = [];                          // by column; -1 on manifolds
    this.rowOfBasis = new Int32Array(n).fill(-1);
    this.tangentOf = new Uint8Array(n).fill(1);
    const curves = new Map();
    let bases = 0;
    this.moved = [];  // free blocks on manifolds
    for (const manifold of this.manifolds)
      for (const at of manifold.blocks) curves.set(at, manifold);
    this.nodes = [];  // first columns of blocks, with the number of columns at the end
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
  columns(flags, out) {
    for (let c = 0; c < this.m; ++c) if (this.scalarOf[c] >= 0) out[c] = flags[this.scalarOf[c]];
    for (const { at, manifold, column } of this.moved)
      out.fill(flags[at], column, column + manifold.tangent);
  }

  /** The columns that the instances of a term meet, each of them once. */
  #list(term) {
    const { rows, instances, parameters, uniforms, index } = term;
    const stride = parameters + uniforms;
    const positions = new Int32Array(instances * parameters).fill(-1);
    const found = [];
    let width = 0;
    for (let i = 0; i < instances; ++i) {
      const columns = [];
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

  moveBases(x) {
    for (const { at, manifold, basis } of this.moved) {
      const size = manifold.width * manifold.width;
      manifold.basis(x.subarray(at, at + manifold.width), none, none,
                     this.bases.subarray(basis, basis + size));
    }
  }

  /** Evaluates the residuals and the Jacobian, corrected for losses. */
  linearize(x) {
    this.moveBases(x);
    this.terms.forEach((term, k) => this.#fill(term, this.lists[k], x));
  }

  #fill(term, list, x) {
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
  gradient(g, squares) {
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
  noise(x) {
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
  curvature(delta, trial) {
    const w = [];
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
  transposed(w, to) {
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
  underflows() {
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
  product(v, q) {
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
  plus(x, delta, length, to) {
    to.set(x);
    const { lower, upper, scalarOf } = this;
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
  isActive(column, x, g) {
    const k = this.scalarOf[column];
    if (k < 0 || this.lower === undefined) return false;
    return (x[k] <= this.lower[k] && g[column] > 0) || (x[k] >= this.upper[k] && g[column] < 0);
  }
}
