// Eigenvalues and eigenvectors of small symmetric matrices.

/**
 * Householder's reduction to a tridiagonal matrix, then implicit QL.
 *
 * Source: Martin, Reinsch, Wilkinson, Householder's tridiagonalization of a symmetric matrix, Numer.
 * Math. 11 (1968); Bowdler, Martin, Reinsch, Wilkinson, The QR and QL algorithms for symmetric
 * matrices, Numer. Math. 11 (1968).
 *
 * @param v symmetric n × n matrix; then its eigenvectors, by column
 * @param d then its eigenvalues
 * @param e scratch of n numbers
 * @returns false if it does not converge
 */
export function decompose(n: number, v: Float64Array, d: Float64Array, e: Float64Array): boolean {
  reduce(n, v, d, e);
  accumulate(n, v, d);
  e.copyWithin(0, 1, n);
  e[n - 1] = 0;
  return diagonalise(n, v, d, e);
}

function reduce(n: number, v: Float64Array, d: Float64Array, e: Float64Array): void {
  for (let j = 0; j < n; ++j) d[j] = v[(n - 1) * n + j];
  for (let i = n - 1; i > 0; --i) {
    let scale = 0, h = 0;
    for (let k = 0; k < i; ++k) scale += Math.abs(d[k]);
    if (scale === 0) {
      e[i] = d[i - 1];
      for (let j = 0; j < i; ++j) {
        d[j] = v[(i - 1) * n + j];
        v[i * n + j] = v[j * n + i] = 0;
      }
      d[i] = 0;
      continue;
    }
    for (let k = 0; k < i; ++k) {
      d[k] /= scale;
      h += d[k] * d[k];
    }
    const f = d[i - 1], g = f > 0 ? -Math.sqrt(h) : Math.sqrt(h);
    e[i] = scale * g;
    h -= f * g;
    d[i - 1] = f - g;
    e.fill(0, 0, i);
    for (let j = 0; j < i; ++j) {
      const fj = v[j * n + i] = d[j];
      let sum = e[j] + v[j * n + j] * fj;
      for (let k = j + 1; k < i; ++k) {
        sum += v[k * n + j] * d[k];
        e[k] += v[k * n + j] * fj;
      }
      e[j] = sum;
    }
    let along = 0;
    for (let j = 0; j < i; ++j) {
      e[j] /= h;
      along += e[j] * d[j];
    }
    const half = along / (h + h);
    for (let j = 0; j < i; ++j) e[j] -= half * d[j];
    for (let j = 0; j < i; ++j) {
      const fj = d[j], gj = e[j];
      for (let k = j; k < i; ++k) v[k * n + j] -= fj * e[k] + gj * d[k];
      d[j] = v[(i - 1) * n + j];
      v[i * n + j] = 0;
    }
    d[i] = h;
  }
}

function accumulate(n: number, v: Float64Array, d: Float64Array): void {
  for (let i = 0; i < n - 1; ++i) {
    v[(n - 1) * n + i] = v[i * n + i];
    v[i * n + i] = 1;
    const h = d[i + 1];
    if (h !== 0) {
      for (let k = 0; k <= i; ++k) d[k] = v[k * n + i + 1] / h;
      for (let j = 0; j <= i; ++j) {
        let g = 0;
        for (let k = 0; k <= i; ++k) g += v[k * n + i + 1] * v[k * n + j];
        for (let k = 0; k <= i; ++k) v[k * n + j] -= g * d[k];
      }
    }
    for (let k = 0; k <= i; ++k) v[k * n + i + 1] = 0;
  }
  for (let j = 0; j < n; ++j) {
    d[j] = v[(n - 1) * n + j];
    v[(n - 1) * n + j] = 0;
  }
  v[n * n - 1] = 1;
}

/** √(a² + b²), with the same bits in every browser. */
function length(a: number, b: number): number {
  const most = Math.max(Math.abs(a), Math.abs(b)), least = Math.min(Math.abs(a), Math.abs(b));
  return most > 0 ? most * Math.sqrt(1 + (least / most) * (least / most)) : most;
}

function diagonalise(n: number, v: Float64Array, d: Float64Array, e: Float64Array): boolean {
  let shift = 0, size = 0;
  for (let l = 0; l < n; ++l) {
    size = Math.max(size, Math.abs(d[l]) + Math.abs(e[l]));
    let m = l;
    while (m < n - 1 && Math.abs(e[m]) > Number.EPSILON * size) ++m;
    for (let turns = 0; m > l && Math.abs(e[l]) > Number.EPSILON * size; ++turns) {
      if (turns === 60) return false;
      const first = d[l];
      let p = (d[l + 1] - first) / (2 * e[l]), r = Math.sqrt(p * p + 1);
      if (p < 0) r = -r;
      d[l] = e[l] / (p + r);
      const next = d[l + 1] = e[l] * (p + r), h = first - d[l], along = e[l + 1];
      for (let i = l + 2; i < n; ++i) d[i] -= h;
      shift += h;
      p = d[m];
      let c = 1, c2 = 1, c3 = 1, s = 0, s2 = 0;
      for (let i = m - 1; i >= l; --i) {
        c3 = c2;
        c2 = c;
        s2 = s;
        const g = c * e[i], part = c * p;
        r = length(p, e[i]);
        e[i + 1] = s * r;
        s = e[i] / r;
        c = p / r;
        p = c * d[i] - s * g;
        d[i + 1] = part + s * (c * g + s * d[i]);
        for (let k = 0, row = i; k < n; ++k, row += n) {
          const after = v[row + 1], before = v[row];
          v[row + 1] = s * before + c * after;
          v[row] = c * before - s * after;
        }
      }
      p = -s * s2 * c3 * along * e[l] / next;
      e[l] = s * p;
      d[l] = c * p;
    }
    d[l] += shift;
    e[l] = 0;
  }
  return true;
}

/** Scratch by size. */
const memory = new Map<number, { v: Float64Array; d: Float64Array; e: Float64Array }>();

/**
 * Replaces the negative eigenvalues of a symmetric matrix by 0. A matrix without any keeps its bits;
 * one that is not finite stays as it is.
 *
 * @param a n × n numbers
 */
export function removeNegativePart(n: number, a: Float64Array): void {
  let some = false;
  for (let k = 0; k < n * n; ++k) {
    if (!Number.isFinite(a[k])) return;
    some ||= a[k] !== 0;
  }
  if (!some) return;
  let own = memory.get(n);
  if (own === undefined) {
    own = { v: new Float64Array(n * n), d: new Float64Array(n), e: new Float64Array(n) };
    memory.set(n, own);
  }
  const { v, d, e } = own;
  v.set(a);
  if (!decompose(n, v, d, e)) return;
  for (let c = 0; c < n; ++c) {
    const value = d[c];
    if (!(value < 0)) continue;
    for (let i = 0; i < n; ++i) {
      const factor = value * v[i * n + c];
      for (let j = 0; j <= i; ++j) a[i * n + j] -= factor * v[j * n + c];
    }
  }
  for (let i = 0; i < n; ++i) for (let j = 0; j < i; ++j) a[j * n + i] = a[i * n + j];
}
