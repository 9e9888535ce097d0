// Solvers of the damped normal equations (JᵀJ + D) δ = -Jᵀr.
import { type Model, widestBlock } from "./model.js";

export function vanishingShare(unknowns: number): number {
  return Math.min(unknowns * Number.EPSILON, 1e-10);
}

/** Most entries of the list of products that make JᵀJ, and of a factor's numbers. */
const mostTargets = 3e7, mostNumbers = 3e7;
/** Operations of the largest factor that is made unasked: seconds of work. */
export const dearestFactor = 3e9;
export const widestTested = 16;
const mostDense = 150;

/** Nodes that are eliminated together, the nodes that they meet, and the groups whose updates they take. */
interface Group {
  readonly nodes: readonly number[];
  readonly rows: readonly number[];
  readonly children: readonly number[];
}

/** The front of a group: its columns and rows, its numbers in the factor, and its entries of JᵀJ. */
interface Front {
  readonly pivots: Int32Array;
  readonly rows: Int32Array;
  readonly children: readonly number[];
  readonly at: number;
  slots: Int32Array;
  begin: number;
  end: number;
}

const noNumbers = new Float64Array(0), noIndices = new Int32Array(0);

/**
 * A sparse factor of the normal equations, by fronts: blocks of columns are eliminated in a given
 * order, and each one adds its update to the front of the next block that it meets.
 */
export class Factor {
  readonly model: Model;
  readonly m: number;
  operations = 0;
  groups: Front[] = [];
  nodeOf = noIndices;
  front = noNumbers;
  updates = noNumbers;
  lower = noNumbers;
  inverse = noNumbers;  // of pivots; 0 where one vanished
  entries = noNumbers;  // of JᵀJ
  diagonalAt = noIndices;
  local = noIndices;
  targets: Int32Array[] = [];  // by list: the entry that each product of J adds to
  blockAt = noIndices;
  blockEntries = noIndices;

  /**
   * @param order blocks of the problem in the order of elimination; undefined: as they come
   * @returns undefined if the factor would be too large; see `operations`
   */
  static make(model: Model, order: Uint32Array | undefined): Factor | undefined {
    const factor = new Factor(model);
    return factor.#analyse(model, order) ? factor : undefined;
  }

  private constructor(model: Model) {
    this.model = model;
    this.m = model.m;
  }

  #analyse(model: Model, order: Uint32Array | undefined): boolean {
    const { m, nodes } = model;
    let targets = 0;
    for (const { instances, width } of model.lists) targets += instances * width * (width + 1) / 2;
    if (targets > mostTargets) return false;
    const count = nodes.length - 1;
    this.nodeOf = new Int32Array(m + 1).fill(-1);
    for (let k = 0; k < count; ++k) this.nodeOf.fill(k, nodes[k], nodes[k + 1]);
    const sequence = m <= mostDense || order === undefined
      ? Int32Array.from({ length: count }, (_, k) => k)
      : Int32Array.from(order).map((block) => model.nodeOfBlock[block]).filter((k) => k >= 0);
    const groups = m <= mostDense
      ? [{ nodes: [...sequence], rows: [], children: [] }]
      : this.#eliminate(model, sequence);
    return this.#layout(model, groups);
  }

  /** The nodes that each node meets later, by rank. */
  #neighbours(model: Model, sequence: Int32Array): Set<number>[] {
    const rank = new Int32Array(sequence.length);
    sequence.forEach((node, at) => rank[node] = at);
    const later = Array.from(sequence, () => new Set<number>());
    for (const { instances, width, columns } of model.lists) {
      for (let i = 0; i < instances; ++i) {
        const met = new Set<number>();
        for (let c = i * width; c < (i + 1) * width; ++c)
          if (columns[c] < this.m) met.add(rank[this.nodeOf[columns[c]]]);
        const sorted = [...met].sort((a, b) => a - b);
        for (let a = 0; a < sorted.length; ++a)
          for (let b = a + 1; b < sorted.length; ++b) later[sorted[a]].add(sorted[b]);
      }
    }
    return later;
  }

  /** Groups of nodes that are eliminated together, children before parents. */
  #eliminate(model: Model, sequence: Int32Array): Group[] {
    const later = this.#neighbours(model, sequence);
    const count = sequence.length, parent = new Int32Array(count).fill(-1);
    const children = Array.from(sequence, (): number[] => []), rows = new Array<Int32Array>(count);
    for (let j = 0; j < count; ++j) {
      const all = later[j];
      for (const child of children[j])
        for (const row of rows[child]) if (row !== j) all.add(row);
      rows[j] = Int32Array.from(all).sort();
      if (rows[j].length > 0) {
        parent[j] = rows[j][0];
        children[parent[j]].push(j);
      }
    }
    // A node joins its parent if that has the same rows.
    const joined = new Int32Array(count).fill(-1);  // the child of a node's own group
    const inner = new Uint8Array(count);
    for (let j = 0; j < count; ++j) {
      const p = parent[j];
      if (p < 0 || joined[p] >= 0) continue;
      if (rows[j].length === rows[p].length + 1) {
        joined[p] = j;
        inner[j] = 1;
      }
    }
    const groups: Group[] = [], stack: { top: number; entered: boolean }[] = [];
    const visit = (top: number) => stack.push({ top, entered: false });
    for (let j = count; j-- > 0;) if (parent[j] < 0) visit(j);
    const numberOf = new Int32Array(count).fill(-1);
    while (stack.length > 0) {
      const one = stack[stack.length - 1];
      const chain: number[] = [];
      for (let j = one.top; j >= 0; j = joined[j]) chain.push(j);
      if (!one.entered) {
        one.entered = true;
        for (const j of chain) for (const child of children[j]) if (inner[child] === 0) visit(child);
        continue;
      }
      stack.pop();
      chain.reverse();
      numberOf[one.top] = groups.length;
      const below: number[] = [];
      for (const j of chain)
        for (const child of children[j]) if (inner[child] === 0) below.push(numberOf[child]);
      below.sort((a, b) => a - b);  // as their updates lie on the stack
      groups.push({
        nodes: chain.map((j) => sequence[j]),
        rows: Array.from(rows[one.top], (j) => sequence[j]),
        children: below,
      });
    }
    return groups;
  }

  #layout(model: Model, groups: Group[]): boolean {
    const { nodes } = model, m = this.m;
    const columnsOf = (list: readonly number[]) => {
      const out: number[] = [];
      for (const node of list) for (let c = nodes[node]; c < nodes[node + 1]; ++c) out.push(c);
      return Int32Array.from(out);
    };
    let numbers = 0, largest = 0, held = 0, most = 0;
    this.operations = 0;
    this.groups = groups.map(({ nodes: own, rows: other, children }) => {
      const pivots = columnsOf(own), rows = columnsOf(other);
      const k = pivots.length, r = rows.length;
      const group = { pivots, rows, children, at: numbers, slots: noIndices, begin: 0, end: 0 };
      numbers += k * (k + r);
      largest = Math.max(largest, k + r);
      this.operations += k * k * k / 3 + r * k * k + r * r * k;
      return group;
    });
    for (const { rows, children } of this.groups) {
      for (const child of children) held -= this.groups[child].rows.length ** 2;
      held += rows.length ** 2;
      // The children's updates lie there until the front has been assembled.
      most = Math.max(most, held + children.reduce((n, c) => n + this.groups[c].rows.length ** 2, 0));
    }
    if (!(numbers + most + largest * largest <= mostNumbers)) return false;
    this.front = new Float64Array(largest * largest);
    this.updates = new Float64Array(most);
    this.lower = new Float64Array(numbers);
    this.inverse = new Float64Array(m);
    this.diagonalAt = new Int32Array(m);
    this.local = new Int32Array(m);
    this.#number(model);
    return true;
  }

  /** Numbers the entries of JᵀJ group by group, and lists where each product of J goes. */
  #number({ lists, nodes }: Model): void {
    const { m, groups, local } = this, groupOf = new Int32Array(m), rank = new Int32Array(m);
    let next = 0;
    groups.forEach(({ pivots }, g) => {
      for (const column of pivots) {
        groupOf[column] = g;
        rank[column] = next++;
      }
    });
    const sizes = lists.map(({ instances, width }) => instances * width * (width + 1) / 2);
    const products = sizes.reduce((a, b) => a + b, 0), whole = new Int32Array(products);
    let begin = 0;
    this.targets = sizes.map((size) => whole.subarray(begin, begin += size));
    const early = new Int32Array(products).fill(-1), late = new Int32Array(products);
    let at = 0;
    for (const { instances, width, columns } of lists) {
      for (let i = 0; i < instances; ++i) {
        for (let a = 0; a < width; ++a) {
          const row = columns[i * width + a];
          for (let b = 0; b <= a; ++b, ++at) {
            const column = columns[i * width + b];
            if (row >= m || column >= m) continue;
            const first = rank[row] < rank[column];
            early[at] = first ? row : column;
            late[at] = first ? column : row;
          }
        }
      }
    }
    const ends = new Int32Array(groups.length + 1);
    for (let k = 0; k < products; ++k) if (early[k] >= 0) ends[groupOf[early[k]] + 1] += 1;
    for (let g = 0; g < groups.length; ++g) ends[g + 1] += ends[g];
    const sorted = new Int32Array(ends[groups.length]), to = ends.slice();
    for (let k = 0; k < products; ++k) if (early[k] >= 0) sorted[to[groupOf[early[k]]]++] = k;
    const firstNode = new Int32Array(m), count = nodes.length - 1;
    this.blockAt = new Int32Array(count);
    let size = 0;
    for (let k = 0; k < count; ++k) {
      const width = nodes[k + 1] - nodes[k];
      firstNode.fill(k, nodes[k], nodes[k + 1]);
      this.blockAt[k] = size;
      if (width <= widestTested) size += width * (width + 1) / 2;
    }
    this.blockEntries = new Int32Array(size);
    const slotOf = new Int32Array(this.front.length);
    let entries = 0;
    groups.forEach((group, g) => {
      const { pivots, rows } = group, k = pivots.length, wide = k + rows.length, slots: number[] = [];
      slotOf.fill(-1, 0, wide * wide);
      pivots.forEach((column, t) => local[column] = t);
      rows.forEach((column, t) => local[column] = k + t);
      group.begin = entries;
      const find = (a: number, b: number) => {
        const index = local[b] * wide + local[a];
        if (slotOf[index] < 0) slotOf[index] = slots.push(index) - 1;
        return group.begin + slotOf[index];
      };
      for (let e = ends[g]; e < ends[g + 1]; ++e) whole[sorted[e]] = find(early[sorted[e]], late[sorted[e]]);
      for (const a of pivots) {
        this.diagonalAt[a] = find(a, a);
        const node = firstNode[a], first = nodes[node];
        if (nodes[node + 1] - first > widestTested) continue;
        let block = this.blockAt[node] + (a - first) * (a - first + 1) / 2;
        for (let b = first; b <= a; ++b) this.blockEntries[block++] = find(b, a);
      }
      group.slots = Int32Array.from(slots);
      group.end = entries += slots.length;
    });
    this.entries = new Float64Array(entries + 1);
    for (let k = 0; k < products; ++k) if (early[k] < 0) whole[k] = entries;
  }

  assemble(): void {
    const entries = this.entries.fill(0);
    this.model.lists.forEach(({ rows, instances, width, jacobian }, t) => {
      const targets = this.targets[t];
      let at = 0;
      for (let i = 0; i < instances; ++i) {
        const base = i * rows * width, end = base + rows * width;
        for (let a = 0; a < width; ++a) {
          for (let b = 0; b <= a; ++b) {
            let sum = 0;
            for (let j = base; j < end; j += width) sum += jacobian[j + a] * jacobian[j + b];
            entries[targets[at++]] += sum;
          }
        }
      }
    });
  }

  /** Sums matrices of instances: by list of columns, lower triangles by rows. */
  assembleBlocks(blocks: readonly Float64Array[]): void {
    const entries = this.entries.fill(0);
    this.targets.forEach((targets, t) => {
      const numbers = blocks[t];
      for (let k = 0; k < targets.length; ++k) entries[targets[k]] += numbers[k];
    });
  }

  /** Copies the lower triangle of the block of JᵀJ of a node of at most 16 columns. */
  block(node: number, width: number, out: Float64Array): void {
    let at = this.blockAt[node];
    for (let a = 0; a < width; ++a)
      for (let b = 0; b <= a; ++b) out[a * width + b] = this.entries[this.blockEntries[at++]];
  }

  /**
   * Factors JᵀJ with a damping of the diagonal.
   *
   * @param held 1 for columns that take no part
   * @param vanishes pivots may vanish: their unknowns do not move then
   * @returns the number of pivots that vanished, or -1 if the matrix is not positive definite
   */
  factor(damping: Float64Array, held: Uint8Array, vanishes: boolean): number {
    const share = vanishes ? vanishingShare(this.m) : 0;
    let top = 0, vanished = 0;
    for (const group of this.groups) {
      const { pivots, rows, children } = group, k = pivots.length, size = k + rows.length;
      const front = this.front.fill(0, 0, size * size);
      for (let e = group.begin, p = 0; e < group.end; ++e, ++p) front[group.slots[p]] = this.entries[e];
      for (let t = 0; t < k; ++t) front[t * size + t] += damping[pivots[t]];
      for (let t = 0; t < k; ++t) this.local[pivots[t]] = t;
      for (let t = 0; t < rows.length; ++t) this.local[rows[t]] = k + t;
      for (let c = children.length; c-- > 0;) {
        const added = this.groups[children[c]].rows;
        top -= added.length ** 2;
        this.#add(added, top, front, size);
      }
      for (let t = 0; t < k; ++t) if (held[pivots[t]] !== 0) this.#hold(front, size, t);
      for (let t = 0; t < rows.length; ++t) if (held[rows[t]] !== 0) this.#hold(front, size, k + t);
      const lost = this.#eliminateFront(group, front, size, share, damping, held);
      if (lost < 0) return -1;
      vanished += lost;
      this.#update(front, size, k, top);
      top += rows.length ** 2;
    }
    return vanished;
  }

  #hold(front: Float64Array, size: number, t: number): void {
    for (let c = 0; c < t; ++c) front[t * size + c] = 0;
    for (let r = t + 1; r < size; ++r) front[r * size + t] = 0;
    front[t * size + t] = 1;
  }

  #add(rows: Int32Array, from: number, front: Float64Array, size: number): void {
    const { local, updates } = this, r = rows.length;
    for (let a = 0; a < r; ++a) {
      const to = local[rows[a]] * size, begin = from + a * r;
      for (let b = 0; b <= a; ++b) front[to + local[rows[b]]] += updates[begin + b];
    }
  }

  #eliminateFront({ pivots, at }: Front, front: Float64Array, size: number, share: number, damping: Float64Array,
                  held: Uint8Array): number {
    const k = pivots.length, { lower, inverse, entries, diagonalAt } = this;
    let vanished = 0;
    for (let i = 0; i < k; ++i) {
      const row = i * size, column = pivots[i];
      let square = 0;
      for (let j = 0; j < i; ++j) {
        const other = j * size;
        let sum = front[row + j];
        for (let t = 0; t < j; ++t) sum -= front[row + t] * front[other + t];
        const value = front[row + j] = sum * inverse[pivots[j]];
        square += value * value;
      }
      const pivot = front[row + i] - square;
      if (!Number.isFinite(pivot)) return -1;
      const entry = held[column] !== 0 ? 1 : entries[diagonalAt[column]] + damping[column];
      if (pivot > share * entry) {
        front[row + i] = Math.sqrt(pivot);
        inverse[column] = 1 / front[row + i];
      } else {
        if (share === 0) return -1;
        inverse[column] = 0;
        ++vanished;
      }
    }
    // Four rows at a time: their sums do not wait for one another.
    let i = k;
    for (; i + 3 < size; i += 4) {
      const a = i * size, b = a + size, c = b + size, d = c + size;
      for (let j = 0; j < k; ++j) {
        const other = j * size, scale = inverse[pivots[j]];
        let x = front[a + j], y = front[b + j], z = front[c + j], w = front[d + j];
        for (let t = 0; t < j; ++t) {
          const l = front[other + t];
          x -= front[a + t] * l;
          y -= front[b + t] * l;
          z -= front[c + t] * l;
          w -= front[d + t] * l;
        }
        front[a + j] = x * scale;
        front[b + j] = y * scale;
        front[c + j] = z * scale;
        front[d + j] = w * scale;
      }
    }
    for (; i < size; ++i) {
      const row = i * size;
      for (let j = 0; j < k; ++j) {
        const other = j * size;
        let sum = front[row + j];
        for (let t = 0; t < j; ++t) sum -= front[row + t] * front[other + t];
        front[row + j] = sum * inverse[pivots[j]];
      }
    }
    for (let r = 0, to = at; r < size; ++r, to += k)
      for (let j = 0, row = r * size; j < k; ++j) lower[to + j] = front[row + j];
    return vanished;
  }

  /** What remains for the rows after the pivots, at `to` of the updates. */
  #update(front: Float64Array, size: number, k: number, to: number): void {
    const r = size - k, updates = this.updates;
    for (let i = 0; i < r; i += 3) {
      const a = (k + i) * size, b = i + 1 < r ? a + size : a, c = i + 2 < r ? b + size : b;
      for (let j = 0; j <= i + 2 && j < r; j += 3) {
        const d = (k + j) * size, e = j + 1 < r ? d + size : d, f = j + 2 < r ? e + size : e;
        let ad = 0, ae = 0, af = 0, bd = 0, be = 0, bf = 0, cd = 0, ce = 0, cf = 0;
        for (let t = 0; t < k; ++t) {
          const x = front[a + t], y = front[b + t], z = front[c + t];
          const u = front[d + t], v = front[e + t], w = front[f + t];
          ad += x * u;
          ae += x * v;
          af += x * w;
          bd += y * u;
          be += y * v;
          bf += y * w;
          cd += z * u;
          ce += z * v;
          cf += z * w;
        }
        const most = Math.min(3, r - j), into = to + i * r + j, from = a + k + j;
        for (let q = 0; q < most; ++q) {
          updates[into + q] = front[from + q] - (q === 0 ? ad : q === 1 ? ae : af);
          if (i + 1 < r)
            updates[into + r + q] = front[b + k + j + q] - (q === 0 ? bd : q === 1 ? be : bf);
          if (i + 2 < r)
            updates[into + 2 * r + q] = front[c + k + j + q] - (q === 0 ? cd : q === 1 ? ce : cf);
        }
      }
    }
  }

  solve(x: Float64Array): void {
    const { lower, inverse, groups } = this, y = this.front;
    for (const { pivots, rows, at } of groups) {
      const k = pivots.length, r = rows.length;
      for (let i = 0; i < k; ++i) {
        const row = at + i * k, column = pivots[i];
        let sum = x[column];
        for (let t = 0; t < i; ++t) sum -= lower[row + t] * y[t];
        y[i] = x[column] = sum * inverse[column];
      }
      let i = 0, row = at + k * k;
      for (; i + 3 < r; i += 4, row += 4 * k) {
        let a = 0, b = 0, c = 0, d = 0;
        for (let t = 0, j = row; t < k; ++t, ++j) {
          const value = y[t];
          a += lower[j] * value;
          b += lower[j + k] * value;
          c += lower[j + 2 * k] * value;
          d += lower[j + 3 * k] * value;
        }
        x[rows[i]] -= a;
        x[rows[i + 1]] -= b;
        x[rows[i + 2]] -= c;
        x[rows[i + 3]] -= d;
      }
      for (; i < r; ++i, row += k) {
        let sum = 0;
        for (let t = 0; t < k; ++t) sum += lower[row + t] * y[t];
        x[rows[i]] -= sum;
      }
    }
    for (let g = groups.length; g-- > 0;) {
      const { pivots, rows, at } = groups[g], k = pivots.length, r = rows.length;
      for (let t = 0; t < k; ++t) y[t] = x[pivots[t]];
      let i = 0, row = at + k * k;
      for (; i + 3 < r; i += 4, row += 4 * k) {
        const a = x[rows[i]], b = x[rows[i + 1]], c = x[rows[i + 2]], d = x[rows[i + 3]];
        for (let t = 0, j = row; t < k; ++t, ++j) {
          y[t] = y[t] - lower[j] * a - lower[j + k] * b - lower[j + 2 * k] * c -
                 lower[j + 3 * k] * d;
        }
      }
      for (; i < r; ++i, row += k) {
        const value = x[rows[i]];
        for (let t = 0; t < k; ++t) y[t] -= lower[row + t] * value;
      }
      for (let i = k; i-- > 0;) {
        const row = at + i * k, value = x[pivots[i]] = y[i] * inverse[pivots[i]];
        for (let t = 0; t < i; ++t) y[t] -= lower[row + t] * value;
      }
    }
  }
}

/** How exactly a system is solved: a share of the gradient's norm, in the norm √(r·M⁻¹r) if `inEnergy`. */
export interface Request {
  readonly tolerance: number;
  readonly maxIterations: number;
  readonly inEnergy: boolean;
}

/** Awaited now and then; true ends what awaits it. */
export type Pause = () => boolean | Promise<boolean>;

/** Conjugate gradients, preconditioned by the damped diagonal blocks of JᵀJ. */
export class Iteration {
  readonly model: Model;
  readonly first: Int32Array;  // by column: the first one of its block, its width, its place in `blocks`
  readonly width: Int32Array;
  readonly at: Int32Array;
  readonly blocks: Float64Array;
  readonly factors: Float64Array;

  constructor(model: Model) {
    this.model = model;
    const { m, nodes } = model;
    this.first = new Int32Array(m + 1).fill(-1);
    this.width = new Int32Array(m);
    this.at = new Int32Array(m);
    let size = 0;
    for (let k = 0; k + 1 < nodes.length; ++k) {
      const wide = nodes[k + 1] - nodes[k], w = wide <= widestBlock ? wide : 1;
      for (let c = nodes[k]; c < nodes[k + 1]; ++c) {
        this.first[c] = c - (c - nodes[k]) % w;
        this.width[c] = w;
        this.at[c] = size + (this.first[c] - nodes[k]) * w;
      }
      size += wide * w;
    }
    this.blocks = new Float64Array(size);
    this.factors = new Float64Array(size);
  }

  /** @param _squares of the norms of the columns  @param _seesBlocks `blocks` are looked up */
  assemble(_squares: Float64Array, _seesBlocks: boolean): void {
    this.assembleBlocks();
  }

  protected assembleBlocks(): void {
    const { first, width, at, blocks } = this;
    blocks.fill(0);
    for (const list of this.model.lists) {
      const { rows, instances, width: wide, columns, jacobian } = list;
      for (let i = 0; i < instances; ++i) {
        const base = i * rows * wide, end = base + rows * wide;
        for (let a = 0; a < wide; ++a) {
          const row = columns[i * wide + a];
          if (row >= this.model.m) continue;
          for (let b = 0; b < wide; ++b) {
            const column = columns[i * wide + b];
            if (first[column] !== first[row]) continue;
            let sum = 0;
            for (let j = base; j < end; j += wide) sum += jacobian[j + a] * jacobian[j + b];
            blocks[at[row] + (row - first[row]) * width[row] + column - first[row]] += sum;
          }
        }
      }
    }
  }

  #factor(damping: Float64Array, held: Uint8Array): void {
    const { width, at, blocks, factors } = this;
    for (let k = 0; k < this.model.m; k += width[k]) {
      const w = width[k], m = at[k];
      for (let r = 0; r < w; ++r) {
        for (let c = 0; c <= r; ++c) {
          const free = held[k + r] === 0 && held[k + c] === 0;
          let sum = free ? blocks[m + r * w + c] : r === c ? 1 : 0;
          if (r === c && free) sum += damping[k + r];
          const whole = sum;
          for (let l = 0; l < c; ++l) sum -= factors[m + r * w + l] * factors[m + c * w + l];
          if (r === c) {
            // A pivot that rounding took away is as large as rounding.
            sum = Math.sqrt(Math.max(sum, Number.EPSILON * whole, Number.MIN_VALUE));
          } else {
            sum /= factors[m + c * w + c];
          }
          factors[m + r * w + c] = sum;
        }
      }
    }
  }

  #precondition(r: Float64Array, z: Float64Array): void {
    const { width, at, factors } = this;
    for (let k = 0; k < this.model.m; k += width[k]) {
      const w = width[k], m = at[k];
      for (let a = 0; a < w; ++a) {
        let sum = r[k + a];
        for (let l = 0; l < a; ++l) sum -= factors[m + a * w + l] * z[k + l];
        z[k + a] = sum / factors[m + a * w + a];
      }
      for (let a = w; a-- > 0;) {
        let sum = z[k + a];
        for (let l = a + 1; l < w; ++l) sum -= factors[m + l * w + a] * z[k + l];
        z[k + a] = sum / factors[m + a * w + a];
      }
    }
  }

  /** As conjugateGradients(), with what was assembled last. */
  solve(g: Float64Array, damping: Float64Array, held: Uint8Array, delta: Float64Array, request: Request,
        pause: Pause): Promise<number> {
    this.#factor(damping, held);
    return conjugateGradients(this.model, (r, z) => this.#precondition(r, z), g, damping, held, delta,
                              request, pause);
  }
}

/**
 * Solves (JᵀJ + D) δ = -g.
 *
 * @param precondition sets z to an approximate solution for r
 * @returns the number of iterations, or -1 if the matrix is not positive definite
 */
export async function conjugateGradients(
    model: Model, precondition: (r: Float64Array, z: Float64Array) => void, g: Float64Array, damping: Float64Array,
    held: Uint8Array, delta: Float64Array, request: Request, pause: Pause): Promise<number> {
  const m = model.m, vector = () => new Float64Array(m + 1);
  const r = vector(), z = vector(), p = vector(), q = vector();
  for (let k = 0; k < m; ++k) {
    r[k] = held[k] === 0 ? -g[k] : 0;
    delta[k] = 0;
  }
  precondition(r, z);
  p.set(z);
  p[m] = 0;
  let rz = dot(r, z, m), rr = dot(r, r, m), count = 0;
  const norm = () => Math.sqrt(request.inEnergy ? rz : rr);
  const enough = request.tolerance * norm();
  while (rr > 0 && norm() > enough && count < request.maxIterations) {
    if (await pause()) break;
    model.product(p, q);
    for (let k = 0; k < m; ++k) q[k] = held[k] === 0 ? q[k] + damping[k] * p[k] : 0;
    const curvature = dot(p, q, m);
    if (!(curvature > 0)) return -1;
    const alpha = rz / curvature;
    for (let k = 0; k < m; ++k) {
      delta[k] += alpha * p[k];
      r[k] -= alpha * q[k];
    }
    ++count;
    precondition(r, z);
    const next = dot(r, z, m), beta = next / rz;
    rr = dot(r, r, m);
    rz = next;
    for (let k = 0; k < m; ++k) p[k] = z[k] + beta * p[k];
  }
  return count;
}

/** Square that is left of a column of norm 1 that depends on others. */
export const leastPivot = 1e-12;

/**
 * Factors the lower triangle of a symmetric matrix in units in which its diagonal is 1. Returns them, and
 * the columns of which those before leave a square of at most `least`.
 */
export function factorDense(a: Float64Array | number[], n: number,
                            least: number): { units: Float64Array; depends: number[] } {
  const units = new Float64Array(n), depends: number[] = [];
  for (let i = 0; i < n; ++i) units[i] = a[i * n + i] > 0 ? 1 / Math.sqrt(a[i * n + i]) : 0;
  for (let j = 0; j < n; ++j) {
    for (let i = j; i < n; ++i) {
      let sum = units[i] * a[i * n + j] * units[j];
      for (let k = 0; k < j; ++k) sum -= a[i * n + k] * a[j * n + k];
      a[i * n + j] = i === j ? Math.sqrt(sum > least ? sum : 0) : a[j * n + j] > 0 ? sum / a[j * n + j] : 0;
    }
    if (!(a[j * n + j] > 0)) depends.push(j);
  }
  return { units, depends };
}

export function dot(a: Float64Array, b: Float64Array, n: number): number {
  let sum = 0;
  for (let k = 0; k < n; ++k) sum += a[k] * b[k];
  return sum;
}

/**
 * Householder's QR of a matrix with pivots, which becomes R, while the right side becomes Qᵀ right.
 *
 * @param a (rows, n); the pivot's column goes to the front
 * @param share of the first pivot, up to which others are rounding
 * @returns the columns in their new order, and the rank
 */
function triangulate(a: Float64Array, rows: number, n: number, right: Float64Array,
                     share: number): { order: number[]; rank: number } {
  const order = Array.from({ length: n }, (_, k) => k);
  let rank = 0, first = 0;
  for (; rank < Math.min(n, rows); ++rank) {
    const k = rank;
    let square = -1, best = k;
    for (let c = k; c < n; ++c) {
      let sum = 0;
      for (let i = k; i < rows; ++i) sum += a[i * n + c] ** 2;
      if (sum > square) [square, best] = [sum, c];
    }
    const norm = Math.sqrt(square);
    if (k === 0) first = norm;
    if (!(norm > share * first)) break;
    [order[k], order[best]] = [order[best], order[k]];
    for (let i = 0; i < rows; ++i)
      [a[i * n + k], a[i * n + best]] = [a[i * n + best], a[i * n + k]];
    const alpha = a[k * n + k] > 0 ? -norm : norm, head = a[k * n + k] - alpha;
    const v = new Float64Array(rows - k);
    v[0] = head;
    for (let i = k + 1; i < rows; ++i) v[i - k] = a[i * n + k];
    const factor = 2 / (square - a[k * n + k] ** 2 + head * head);
    for (let c = k; c < n; ++c) {
      let sum = 0;
      for (let i = k; i < rows; ++i) sum += v[i - k] * a[i * n + c];
      for (let i = k; i < rows; ++i) a[i * n + c] -= factor * sum * v[i - k];
    }
    let sum = 0;
    for (let i = k; i < rows; ++i) sum += v[i - k] * right[i];
    for (let i = k; i < rows; ++i) right[i] -= factor * sum * v[i - k];
  }
  return { order, rank };
}

/** The shortest y that minimises ‖a y − right‖; overwrites both. */
function shortestSolution(a: Float64Array, rows: number, n: number, right: Float64Array, share: number): Float64Array {
  const { order, rank } = triangulate(a, rows, n, right, share), rest = n - rank;
  const back = (b: (k: number) => number) => {
    const y = new Float64Array(rank);
    for (let k = rank; k-- > 0;) {
      let sum = b(k);
      for (let c = k + 1; c < rank; ++c) sum -= a[k * n + c] * y[c];
      y[k] = sum / a[k * n + k];
    }
    return y;
  };
  const head = back((k) => right[k]), y = new Float64Array(n);
  let tail = new Float64Array(rest);
  if (rest > 0) {
    // y = (head − G w, w) is a solution for any w; the shortest one minimises ‖[G; I] w − [head; 0]‖.
    const g = new Float64Array(n * rest), b = new Float64Array(n);
    for (let c = 0; c < rest; ++c) {
      back((k) => a[k * n + rank + c]).forEach((value, k) => g[k * rest + c] = value);
      g[(rank + c) * rest + c] = 1;
    }
    b.set(head);
    tail = shortestSolution(g.slice(), n, rest, b, 0);
    for (let k = 0; k < rank; ++k)
      for (let c = 0; c < rest; ++c) head[k] -= g[k * rest + c] * tail[c];
  }
  order.forEach((to, k) => y[to] = k < rank ? head[k] : tail[k - rank]);
  return y;
}

/**
 * Minimises ‖[J S; √D S] y + [r; 0]‖ by QR, and sets δ = S y, the shortest y; for few unknowns, whose
 * normal equations rounding may spoil.
 *
 * @returns false if numbers are not finite
 */
export function solveByRows(model: Model, damping: Float64Array, scale: Float64Array, held: Uint8Array,
                            delta: Float64Array): boolean {
  const n = model.m, rows = model.rows + n;
  const a = new Float64Array(rows * n), right = new Float64Array(rows);
  let row = 0;
  for (const { rows: perInstance, instances, width, columns, residuals, jacobian } of model.lists) {
    for (let i = 0; i < instances; ++i) {
      for (let r = 0; r < perInstance; ++r, ++row) {
        right[row] = -residuals[i * perInstance + r];
        for (let c = 0; c < width; ++c) {
          const column = columns[i * width + c];
          if (column < n && held[column] === 0)
            a[row * n + column] += jacobian[(i * perInstance + r) * width + c] * scale[column];
        }
      }
    }
  }
  for (let k = 0; k < n; ++k)
    if (held[k] === 0) a[(model.rows + k) * n + k] = Math.sqrt(Math.max(damping[k], 0)) * scale[k];
  if (!a.every(Number.isFinite) || !right.every(Number.isFinite)) return false;
  const share = Number.EPSILON * Math.max(n, 4 * Math.sqrt(model.rows));
  const y = shortestSolution(a, rows, n, right, share);
  for (let k = 0; k < n; ++k) delta[k] = held[k] === 0 ? y[k] * scale[k] : 0;
  return delta.every(Number.isFinite);
}
