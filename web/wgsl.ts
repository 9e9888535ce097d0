// The device's kernels of the normal equations, for the sizes of one problem.

/** Invocations of a workgroup, and most that add a part to a sum. */
export const groupSize = 64, mostSums = 8192;
/** Indices in the buffer of scalars; parts of sums follow. */
export const state = { done: 0, failed: 1, count: 2, enough: 3, norm: 4, first: 5, alpha: 6, beta: 7, rz: 8,
                       sums: 64, size: 64 + 2 * mostSums };

/** Sizes and offsets in buffers, which kernels have as constants. */
export interface Constants {
  readonly [name: string]: number;
}

function each(count: number, text: (k: number) => string, between = "\n"): string {
  return Array.from({ length: count }, (_, k) => text(k)).join(between);
}

/** The largest tile of up to three that all of these numbers are multiples of. */
export function tileOf(numbers: number[]): number {
  return [3, 2].find((tile) => numbers.every((number) => number % tile === 0)) ?? 1;
}

/**
 * Kernels of (JᵀJ + D) x = b by conjugate gradients with block Jacobi, in f32. J is stored by
 * columns of each term; all sums are gathered, in an order that the sizes decide. One iteration is
 * along, rows, columns, bend, update, judge, which do nothing after the end. Only bend and judge, of one
 * workgroup, wait for others: barriers take long on a processor.
 */
export function normalEquations(at: Constants): string {
  const { ROW_TILE: rowTile, COLUMN_TILE: columnTile } = at;
  const constants = Object.entries(at).map(([name, value]) => `const ${name} = ${value}u;`).join("\n");
  const lines = Object.entries(state).map(([name, value]) =>
    `const ${name.toUpperCase()} = ${value}u;`).join("\n");
  return `
${constants}
${lines}
const NONE = 0xffffffffu;
struct Request { tolerance: f32, floor: f32, most: f32, inEnergy: f32,
  lambda: f32, least: f32, largest: f32, length: f32, norm: f32 }
@group(0) @binding(0) var<storage, read> plan: array<u32>;
@group(0) @binding(1) var<storage, read_write> jac: array<f32>;
@group(0) @binding(2) var<storage, read_write> vec: array<f32>;
@group(0) @binding(3) var<storage, read_write> scalar: array<f32>;
@group(0) @binding(4) var<uniform> request: Request;
var<workgroup> tree: array<vec2f, ${groupSize}>;

/** Adds what invocations of the last kernel have left. */
fn total(lane: u32) -> vec2f {
  var sum = vec2f();
  for (var k = lane; k < SUMMANDS; k += ${groupSize}u) {
    sum += vec2f(scalar[SUMS + 2u * k], scalar[SUMS + 2u * k + 1u]);
  }
  tree[lane] = sum;
  workgroupBarrier();
  for (var half = ${groupSize / 2}u; half > 0u; half /= 2u) {
    if (lane < half) { tree[lane] += tree[lane + half]; }
    workgroupBarrier();
  }
  return tree[0];
}
fn leave(id: u32, value: vec2f) {
  scalar[SUMS + 2u * id] = value.x;
  scalar[SUMS + 2u * id + 1u] = value.y;
}

// α, if the matrix is positive definite along p.
@compute @workgroup_size(${groupSize})
fn bend(@builtin(local_invocation_index) lane: u32) {
  let curvature = total(lane).x;
  if (lane != 0u || scalar[DONE] != 0.0) { return; }
  scalar[ALPHA] = scalar[RZ] / curvature;
  if (!(curvature > 0.0)) {
    scalar[FAILED] = 1.0;
    scalar[DONE] = 1.0;
  }
}

// β, and the end.
@compute @workgroup_size(${groupSize})
fn judge(@builtin(local_invocation_index) lane: u32) {
  let sums = total(lane);
  if (lane != 0u || scalar[DONE] != 0.0) { return; }
  let norm = sqrt(select(sums.y, sums.x, request.inEnergy != 0.0));
  let count = scalar[COUNT] + 1.0;
  if (count == 0.0) {
    scalar[FIRST] = norm;
    scalar[ENOUGH] = max(request.tolerance * norm, request.floor);
    scalar[BETA] = 0.0;
  } else {
    scalar[BETA] = sums.x / scalar[RZ];
  }
  scalar[COUNT] = count;
  scalar[NORM] = norm;
  scalar[RZ] = sums.x;
  if (!(sums.y > 0.0) || norm <= scalar[ENOUGH] || count >= request.most) { scalar[DONE] = 1.0; }
}

// p = z + β p
@compute @workgroup_size(${groupSize})
fn along(@builtin(global_invocation_id) id: vec3u) {
  if (scalar[DONE] != 0.0) { return; }
  let beta = scalar[BETA];
  for (var c = id.x; c < COLUMNS; c += SUMMANDS) { vec[P + c] = vec[Z + c] + beta * vec[P + c]; }
}

// Entries of J times a vector: of successive rows of an instance.
fn alongRows(row: u32, source: u32) -> array<f32, ROW_TILE> {
  var term = TERM;
  while (row >= plan[term + 6u]) { term += 7u; }
  let local = row - plan[term + 5u];
  let rowsOfTerm = plan[term + 4u];
  let instances = plan[term + 3u];
  let width = plan[term + 2u];
  let between = instances * rowsOfTerm;
  var column = plan[term + 1u] + local / rowsOfTerm;
  var entry = plan[term] + local;
  ${each(rowTile, (k) => `var sum${k} = 0.0;`)}
  for (var c = 0u; c < width; c++) {
    let along = vec[source + plan[column]];
    ${each(rowTile, (k) => `sum${k} += jac[entry + ${k}u] * along;`)}
    column += instances;
    entry += between;
  }
  return array<f32, ROW_TILE>(${each(rowTile, (k) => `sum${k}`, ", ")});
}

// t = J p
@compute @workgroup_size(${groupSize})
fn rows(@builtin(global_invocation_id) id: vec3u, @builtin(num_workgroups) groups: vec3u) {
  if (scalar[DONE] != 0.0) { return; }
  for (var row = ROW_TILE * id.x; row < ROWS; row += ROW_TILE * ${groupSize}u * groups.x) {
    let sums = alongRows(row, P);
    ${each(rowTile, (k) => `vec[T + row + ${k}u] = sums[${k}u];`)}
  }
}

// Entries of Jᵀ t, of successive columns of a block, and the squares of the norms of the columns.
fn alongColumns(c: u32) -> array<vec2f, COLUMN_TILE> {
  ${each(columnTile, (k) => `var sums${k} = vec2f();`)}
  let block = plan[COLUMN + c];
  let width = plan[block + 1u];
  var place = plan[block + 4u] + c - plan[block];
  var last = NONE;  // the term of the numbers below
  var rowsOfTerm = 0u;
  var between = 0u;
  var entries = 0u;
  var firstRow = 0u;
  for (var k = plan[block + 2u]; k < plan[block + 3u]; k++) {
    ${each(columnTile, (k) => `let a${k} = plan[place + ${k}u];`)}
    place += width;
    let term = plan[k + INCIDENT];
    if (term != last) {
      last = term;
      rowsOfTerm = plan[term + 4u];
      between = plan[term + 3u] * rowsOfTerm;
      entries = plan[term];
      firstRow = T + plan[term + 5u];
    }
    let instance = plan[k] * rowsOfTerm;
    let first = entries + instance;
    let row = firstRow + instance;
    ${each(columnTile, (k) => `let first${k} = first + select(a${k}, 0u, a${k} == NONE) * between;
    let some${k} = select(1.0, 0.0, a${k} == NONE);`)}
    for (var r = 0u; r < rowsOfTerm; r++) {
      let t = vec[row + r];
      ${each(columnTile, (k) => `let entry${k} = some${k} * jac[first${k} + r];
      sums${k} += entry${k} * vec2f(t, entry${k});`)}
    }
  }
  return array<vec2f, COLUMN_TILE>(${each(columnTile, (k) => `sums${k}`, ", ")});
}
fn alongColumn(c: u32) -> vec2f {
  let first = c - c % COLUMN_TILE;
  var sums = alongColumns(first);
  return sums[c - first];
}

// q = Jᵀ t + D p, and p·q.
@compute @workgroup_size(${groupSize})
fn columns(@builtin(global_invocation_id) id: vec3u) {
  if (scalar[DONE] != 0.0) { return; }
  var product = 0.0;
  for (var first = COLUMN_TILE * id.x; first < COLUMNS; first += COLUMN_TILE * SUMMANDS) {
    let sums = alongColumns(first);
    ${each(columnTile, (k) => `{
      let c = first + ${k}u;
      let p = vec[P + c];
      let q = (vec[D + c] * p + sums[${k}u].x) * vec[FREE + c];
      vec[Q + c] = q;
      product += p * q;
    }`)}
  }
  leave(id.x, vec2f(product, 0.0));
}

fn preconditioned(c: u32, source: u32, alpha: f32) -> f32 {
  let block = plan[COLUMN + c];
  let first = plan[block];
  let width = plan[block + 1u];
  let inverse = INVERSE + plan[block + 5u] + (c - first) * width;
  var z = 0.0;
  for (var b = 0u; b < width; b++) {
    z += vec[inverse + b] * (vec[source + first + b] - alpha * vec[Q + first + b]);
  }
  return z * vec[FREE + c];
}

// x += α p, r -= α q, z = M⁻¹ r, and r·z, r·r.
@compute @workgroup_size(${groupSize})
fn update(@builtin(global_invocation_id) id: vec3u) {
  if (scalar[DONE] != 0.0) { return; }
  let alpha = scalar[ALPHA];
  let turn = u32(scalar[COUNT]) % 2u;
  let source = R + turn * STRIDE;
  let to = R + (1u - turn) * STRIDE;
  var sums = vec2f();
  for (var c = id.x; c < COLUMNS; c += SUMMANDS) {
    let r = vec[source + c] - alpha * vec[Q + c];
    let z = preconditioned(c, source, alpha);
    vec[X + c] += alpha * vec[P + c];
    vec[to + c] = r;
    vec[Z + c] = z;
    let weighted = r * vec[WEIGHT + c];
    sums += vec2f(r * z, weighted * weighted);
  }
  leave(id.x, sums);
}

@compute @workgroup_size(${groupSize})
fn begin(@builtin(global_invocation_id) id: vec3u) {
  var sums = vec2f();
  for (var c = id.x; c < COLUMNS; c += SUMMANDS) {
    let r = vec[B + c] * vec[FREE + c];
    let z = preconditioned(c, B, 0.0);
    vec[R + c] = r;
    vec[Z + c] = z;
    vec[X + c] = 0.0;
    vec[P + c] = 0.0;
    let weighted = r * vec[WEIGHT + c];
    sums += vec2f(r * z, weighted * weighted);
  }
  leave(id.x, sums);
  if (id.x == 0u) {
    scalar[DONE] = 0.0;
    scalar[FAILED] = 0.0;
    scalar[COUNT] = -1.0;
  }
}

// Diagonal blocks of JᵀJ, a row of one by each invocation.
@compute @workgroup_size(${groupSize})
fn blocks(@builtin(global_invocation_id) id: vec3u) {
  for (var c = id.x; c < COLUMNS; c += SUMMANDS) {
    let block = plan[COLUMN + c];
    let width = plan[block + 1u];
    var sums: array<f32, WIDEST>;
    for (var b = 0u; b < width; b++) { sums[b] = 0.0; }
    var place = plan[block + 4u];
    for (var k = plan[block + 2u]; k < plan[block + 3u]; k++) {
      let own = plan[place + c - plan[block]];
      let term = plan[k + INCIDENT];
      let rowsOfTerm = plan[term + 4u];
      let between = plan[term + 3u] * rowsOfTerm;
      let first = plan[term] + plan[k] * rowsOfTerm;
      for (var b = 0u; b < width && own != NONE; b++) {
        let other = plan[place + b];
        if (other == NONE) { continue; }
        for (var r = 0u; r < rowsOfTerm; r++) {
          sums[b] += jac[first + own * between + r] * jac[first + other * between + r];
        }
      }
      place += width;
    }
    let to = BLOCK + plan[block + 5u] + (c - plan[block]) * width;
    for (var b = 0u; b < width; b++) { vec[to + b] = sums[b]; }
  }
}

// Inverses of the damped blocks, by Cholesky with a diagonal of ones; of the diagonal alone where
// rounding has made a block singular.
@compute @workgroup_size(${groupSize})
fn invert(@builtin(global_invocation_id) id: vec3u) {
  for (var n = id.x; n < BLOCKS; n += SUMMANDS) {
    let block = NODE + 6u * n;
    let first = plan[block];
    let w = plan[block + 1u];
    let source = BLOCK + plan[block + 5u];
    let to = INVERSE + plan[block + 5u];
    var a: array<f32, WIDEST * WIDEST>;
    var scale: array<f32, WIDEST>;
    for (var r = 0u; r < w; r++) {
      let entry = vec[source + r * w + r] + vec[D + first + r];
      scale[r] = select(1.0, inverseSqrt(entry), entry > 0.0 && vec[FREE + first + r] != 0.0);
    }
    var singular = false;
    for (var r = 0u; r < w; r++) {
      for (var c = 0u; c <= r; c++) {
        let free = vec[FREE + first + r] * vec[FREE + first + c];
        var sum = select(vec[source + r * w + c] * scale[r] * scale[c] * free, 1.0, r == c);
        for (var l = 0u; l < c; l++) { sum -= a[r * w + l] * a[c * w + l]; }
        if (r == c) {
          singular = singular || !(sum > 1e-6);
          a[r * w + c] = sqrt(max(sum, 1e-6));
        } else {
          a[r * w + c] = sum / a[c * w + c];
        }
      }
    }
    // a becomes L⁻¹.
    for (var c = 0u; c < w; c++) {
      for (var r = c; r < w; r++) {
        var sum = select(0.0, 1.0, r == c);
        for (var l = c; l < r; l++) { sum -= a[r * w + l] * a[l * w + c]; }
        a[r * w + c] = sum / a[r * w + r];
      }
    }
    for (var r = 0u; r < w; r++) {
      for (var c = 0u; c < w; c++) {
        var sum = 0.0;
        for (var l = max(r, c); l < w; l++) { sum += a[l * w + r] * a[l * w + c]; }
        if (singular) { sum = select(0.0, 1.0, r == c); }
        vec[to + r * w + c] = sum * scale[r] * scale[c];
      }
    }
  }
}
`;
}
