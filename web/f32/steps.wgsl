// Whole steps in f32, beside the kernels of the normal equations. Points, their rows and derivatives
// stay on the device; parts of sums are read back and added in float64.
@group(0) @binding(5) var<storage, read_write> raw: array<f32>;
@group(0) @binding(6) var<storage, read_write> point: array<f32>;
struct Place {
  @builtin(global_invocation_id) id: vec3u,
  @builtin(local_invocation_index) lane: u32,
  @builtin(workgroup_id) group: vec3u,
  @builtin(num_workgroups) groups: vec3u,
}

/** Leaves the sums over a workgroup. */
fn tally(slot: u32, at: Place, sums: vec2f) {
  tree[at.lane] = sums;
  workgroupBarrier();
  for (var half = 32u; half > 0u; half /= 2u) {
    if (at.lane < half) { tree[at.lane] += tree[at.lane + half]; }
    workgroupBarrier();
  }
  if (at.lane == 0u) {
    scalar[TALLY + slot * TALLIES + at.group.x] = tree[0].x;
    scalar[TALLY + (slot + 1u) * TALLIES + at.group.x] = tree[0].y;
  }
  workgroupBarrier();
}

/** Leaves the largest numbers of a workgroup. */
fn largest(slot: u32, at: Place, numbers: vec2f) {
  tree[at.lane] = numbers;
  workgroupBarrier();
  for (var half = 32u; half > 0u; half /= 2u) {
    if (at.lane < half) { tree[at.lane] = max(tree[at.lane], tree[at.lane + half]); }
    workgroupBarrier();
  }
  if (at.lane == 0u) {
    scalar[TALLY + slot * TALLIES + at.group.x] = tree[0].x;
    scalar[TALLY + (slot + 1u) * TALLIES + at.group.x] = tree[0].y;
  }
  workgroupBarrier();
}

// The trial becomes the point.
@compute @workgroup_size(64)
fn take(at: Place) {
  for (var k = at.id.x; k < SCALARS; k += 64u * at.groups.x) { point[HERE + k] = point[TRIAL + k]; }
  for (var i = at.id.x; i < INSTANCES; i += 64u * at.groups.x) { point[COSTS + i] = point[NEWCOSTS + i]; }
}

// The right-hand side, and the damping: as Stepper does it.
@compute @workgroup_size(64)
fn damp(at: Place) {
  for (var c = at.id.x; c < COLUMNS; c += 64u * at.groups.x) {
    let s = jac[SCALE + c];
    let square = jac[SQUARE + c];
    var first = point[JACOBI + c];
    if (!(first > 0.0) && square > 0.0) {
      first = s;
      point[JACOBI + c] = first;
    }
    var added = select(s * s, 1.0, square > 0.0);
    if (first > 0.0) {
      let share = s / first;
      added = clamp(first * first * square, request.least, request.largest) * share * share;
    }
    let free = jac[OPEN + c];
    vec[D + c] = request.lambda * added;
    vec[FREE + c] = free;
    vec[B + c] = -jac[GRADIENT + c] * s * free;
    vec[WEIGHT + c] = 1.0 / (s * request.norm);
  }
}

// −g·δ and ‖J δ‖².
@compute @workgroup_size(64)
fn measure(at: Place) {
  var sums = vec2f();
  for (var c = at.id.x; c < COLUMNS; c += 64u * at.groups.x) { sums.x += vec[B + c] * vec[X + c]; }
  for (var row = ROW_TILE * at.id.x; row < ROWS; row += ROW_TILE * 64u * at.groups.x) {
    let along = alongRows(row, X);
    for (var k = 0u; k < ROW_TILE; k++) { sums.y += along[k] * along[k]; }
  }
  tally(0u, at, sums);
}

// δ by scalars; that of a block on a manifold begins at the block's first.
@compute @workgroup_size(64)
fn direct(at: Place) {
  for (var c = at.id.x; c < COLUMNS; c += 64u * at.groups.x) {
    point[DIRECTION + (plan[SCALAR + c] & 0x7fffffffu)] = request.length * vec[X + c] * jac[SCALE + c];
  }
}

@compute @workgroup_size(64)
fn advance(at: Place) {
  for (var k = at.id.x; k < SCALARS; k += 64u * at.groups.x) {
    let source = plan[MOVED + k];
    var value = point[HERE + k];
    if (source != NONE) {
      value = raw[source];
    } else if (point[DIRECTION + k] != 0.0) {
      value += point[DIRECTION + k];
      if (BOUNDED != 0u) { value = clamp(value, point[LOWER + k], point[UPPER + k]); }
    }
    point[TRIAL + k] = value;
  }
}

// Rows, J in the coordinates of steps, and costs of the instances at the trial.
@compute @workgroup_size(64)
fn collect(at: Place) {
  var sums = vec2f();
  for (var number = at.id.x; number < INSTANCES; number += 64u * at.groups.x) {
    var instance = TERMS;
    while (number >= plan[instance + 7u]) { instance += 8u; }
    let term = plan[instance];
    let i = number - plan[instance + 1u];
    let outputs = plan[instance + 2u] + i;
    let parameters = plan[instance + 3u];
    let positions = plan[instance + 4u] + i;
    let indices = plan[instance + 5u] + i;
    let instances = plan[term + 3u];
    let rowsOfTerm = plan[term + 4u];
    let first = plan[term] + i * rowsOfTerm;
    let between = instances * rowsOfTerm;
    var cost = 0.0;
    for (var r = 0u; r < rowsOfTerm; r++) {
      let value = raw[outputs + r * instances];
      vec[T + plan[term + 5u] + i * rowsOfTerm + r] = value;
      cost += 0.5 * value * value;
      for (var c = 0u; c < plan[term + 2u]; c++) { jac[first + c * between + r] = 0.0; }
    }
    if (plan[instance + 6u] != NONE) { cost = raw[plan[instance + 6u] + i]; }
    for (var s = 0u; s < parameters; s++) {
      let position = plan[positions + s * instances];
      if (position == NONE) { continue; }
      let basis = BASIS + 3u * plan[indices + s * instances];
      let isFlat = CURVED == 0u || plan[basis] == NONE;
      for (var r = 0u; r < rowsOfTerm; r++) {
        let value = raw[outputs + (rowsOfTerm + r * parameters + s) * instances];
        let to = first + position * between + r;
        if (isFlat) {
          jac[to] += value;
        } else {
          for (var t = 0u; t < plan[basis + 2u]; t++) {
            jac[to + t * between] += value * raw[plan[basis] + t * plan[basis + 1u]];
          }
        }
      }
    }
    sums += vec2f(cost, point[COSTS + number] - cost);
    point[NEWCOSTS + number] = cost;
  }
  tally(2u, at, sums);
}

// The gradient, norms of columns, and what the rules read of them.
@compute @workgroup_size(64)
fn gradient(at: Place) {
  var squares = vec2f();
  var step = 0.0;
  var most = vec2f();
  var norm = 0.0;
  for (var c = at.id.x; c < COLUMNS; c += 64u * at.groups.x) {
    let sums = alongColumn(c);
    let g = sums.x;
    let square = sums.y;
    let place = plan[SCALAR + c];
    let k = place & 0x7fffffffu;
    let x = point[TRIAL + k];
    let isPinned = point[PINNED + c] != 0.0;
    var held = isPinned;
    var along = select(g, 0.0, isPinned);
    if (BOUNDED != 0u && place == k) {
      let low = point[LOWER + k];
      let high = point[UPPER + k];
      held = held || (x <= low && g > 0.0) || (x >= high && g < 0.0);
      along = clamp(along, x - high, x - low);
    }
    jac[GRADIENT + c] = g;
    jac[SQUARE + c] = square;
    let s = select(1.0, inverseSqrt(square), square > 1e-36 && square < 1e36);
    jac[SCALE + c] = s;
    jac[OPEN + c] = select(1.0, 0.0, held);
    squares += vec2f(along * along, square * x * x);
    let moved = point[DIRECTION + k];
    step += square * moved * moved;
    most = max(most, vec2f(abs(along), select(abs(g) * s, 0.0, held)));
    norm = max(norm, 1.0 / s);
  }
  tally(4u, at, squares);
  tally(6u, at, vec2f(step, 0.0));
  largest(8u, at, most);
  largest(10u, at, vec2f(norm, 0.0));
}

// Columns of J become unit vectors.
@compute @workgroup_size(64)
fn scale(at: Place) {
  for (var row = at.id.x; row < ROWS; row += 64u * at.groups.x) {
    var term = TERM;
    while (row >= plan[term + 6u]) { term += 7u; }
    let local = row - plan[term + 5u];
    let instances = plan[term + 3u];
    let column = plan[term + 1u] + local / plan[term + 4u];
    for (var c = 0u; c < plan[term + 2u]; c++) {
      jac[plan[term] + local + c * instances * plan[term + 4u]] *= jac[SCALE + plan[column + c * instances]];
    }
  }
}
