//// add_row_sums
// Sums come together in the first invocation of each row.
row_sums[gl_LocalInvocationIndex] = sum;
barrier();
for (uint other = WIDTH / 2u; other > 0u; other >>= 1u) {
  if (lane < other) row_sums[gl_LocalInvocationIndex] += row_sums[gl_LocalInvocationIndex + other];
  barrier();
}

//// begin_norms
begin_sum(g_squared);
begin_sum(x_squared);
SUM greatest = SUM(0);

//// begin_scaled_norms
begin_sum(g_squared);
begin_sum(x_squared);
begin_sum(step_squared);
SUM greatest = SUM(0);

//// bounded_norms_scalar
if (fixed_scalars[k] != 0u) {
  held_scalars[k] = 1u;
  gradient[k] = REAL(0);
  continue;
}
REAL x = point[k];
REAL low = lower_bounds[k];
REAL high = upper_bounds[k];
REAL g = gradient[k];
precise REAL moved = x - g;
precise REAL projected = g;
if (moved < low) projected = x - low;
if (moved > high) projected = x - high;
bool stays = (x <= low && g > REAL(0)) || (x >= high && g < REAL(0));
if (stays) projected = REAL(0);  // where x - g is rounded to x
held_scalars[k] = stays ? 1u : 0u;
if (stays) gradient[k] = REAL(0);
SUM v = SUM(projected);
add(g_squared, v * v);
add(x_squared, SUM(x) * SUM(x));
greatest = maximum(greatest, abs(v));

//// front_children
// Adds to the tile what the children left in its rows and columns: one child after another, so that
// every entry is summed in one order.
for (uint child = fronts[word + 6u]; child < fronts[word + 7u]; ++child) {
  uint from = 10u * child;
  uint cut = fronts[from + 9u];
  uint i0 = cuts[cut + r0 / 32u];
  uint j0 = cuts[cut + c0 / 32u];
  uint wide = cuts[cut + c0 / 32u + 1u] - j0;
  uint size = (cuts[cut + r0 / 32u + 1u] - i0) * wide;
  if (size != 0u) {
    uint list = fronts[from + 8u];
    uint update = fronts[from + 3u] - children_first;
    for (uint t = gl_LocalInvocationIndex; t < size; t += GROUP) {
      uint i = i0 + t / wide;
      uint j = j0 + t % wide;
      if (j <= i) {
        uint at = (places[list + i] - r0) * 32u + places[list + j] - c0;
        precise REAL sum = tile[at] + updates[update + i * (i + 1u) / 2u + j];
        tile[at] = sum;
      }
    }
    barrier();
  }
}

//// front_diagonal
// Loads the factor of the pivots' block from column `block` on: below its diagonal, packed by rows,
// and the reciprocals of the diagonal. It lies above the diagonal of the panel, and behind it.
for (uint t = gl_LocalInvocationIndex; t < 1024u; t += GROUP) {
  uint j = t / 32u;
  uint i = t % 32u;
  if (j < i && i < width) lower[i * (i + 1u) / 2u + j] = panels[panel + (block + j) * pivots + block + i];
  if (j == i && i < width) lower[i * (i + 1u) / 2u + i] = panels[panel + rows * pivots + block + i];
}

//// front_item
// Item w of a list: a tile of 32 rows from r0 on and 32 columns from c0 on, and its front
// (runtime/factor/level_plan.hpp).
uint item = 2u * (first + w);
uint word = 10u * items[item];
uint r0 = 32u * (items[item + 1u] & 0xffffu);
uint c0 = 32u * (items[item + 1u] >> 16u);
uint panel = fronts[word];
uint pivots = fronts[word + 1u];
uint rows = pivots + fronts[word + 2u];

//// front_products
// Subtracts from sum_u_v, for rows ty + 8 u and columns tx + 8 v of a tile, the products of the
// columns `begin` to `end` of L S in rows r0 + ..., and of L in rows c0 + ...: eight columns at a time.
for (uint q = begin; q < end; q += 8u) {
  for (uint t = gl_LocalInvocationIndex; t < 256u; t += GROUP) {
    uint i = t / 8u;
    uint p = t % 8u;
    bool inside = q + p < end;
    left[p * 33u + i] = inside && r0 + i < rows ? panels[panel + (r0 + i) * pivots + q + p] : REAL(0);
    right[p * 33u + i] = inside && c0 + i < rows ? panels[panel + (c0 + i) * pivots + q + p] : REAL(0);
  }
  if (indefinite != 0u) {  // the same invocation's numbers: a branch above costs a tenth in f64
    for (uint t = gl_LocalInvocationIndex; t < 256u; t += GROUP) {
      uint p = t % 8u;
      if (q + p < end && panels[panel + rows * pivots + q + p] < REAL(0)) right[p * 33u + t / 8u] = -right[p * 33u + t / 8u];
    }
  }
  barrier();
  for (uint p = 0u; p < 8u; ++p) {
    REAL a_0 = left[p * 33u + ty];
    REAL a_1 = left[p * 33u + ty + 8u];
    REAL a_2 = left[p * 33u + ty + 16u];
    REAL a_3 = left[p * 33u + ty + 24u];
    REAL b_0 = right[p * 33u + tx];
    REAL b_1 = right[p * 33u + tx + 8u];
    REAL b_2 = right[p * 33u + tx + 16u];
    REAL b_3 = right[p * 33u + tx + 24u];
    sum_0_0 = fma(-a_0, b_0, sum_0_0);
    sum_0_1 = fma(-a_0, b_1, sum_0_1);
    sum_0_2 = fma(-a_0, b_2, sum_0_2);
    sum_0_3 = fma(-a_0, b_3, sum_0_3);
    sum_1_0 = fma(-a_1, b_0, sum_1_0);
    sum_1_1 = fma(-a_1, b_1, sum_1_1);
    sum_1_2 = fma(-a_1, b_2, sum_1_2);
    sum_1_3 = fma(-a_1, b_3, sum_1_3);
    sum_2_0 = fma(-a_2, b_0, sum_2_0);
    sum_2_1 = fma(-a_2, b_1, sum_2_1);
    sum_2_2 = fma(-a_2, b_2, sum_2_2);
    sum_2_3 = fma(-a_2, b_3, sum_2_3);
    sum_3_0 = fma(-a_3, b_0, sum_3_0);
    sum_3_1 = fma(-a_3, b_1, sum_3_1);
    sum_3_2 = fma(-a_3, b_2, sum_3_2);
    sum_3_3 = fma(-a_3, b_3, sum_3_3);
  }
  barrier();
}

//// inverse_factor
// Lower triangle of the inverse of the Cholesky factor of a block (of which the upper triangle is read);
// false, and the inverse roots of the diagonal, where the block is not positive definite.
bool inverse_factor(SUM block[WIDTH * WIDTH], out SUM factor[WIDTH * WIDTH]) {
  bool positive = true;
  for (uint j = 0u; j < WIDTH; ++j) {
    for (uint i = j; i < WIDTH; ++i) {
      precise SUM value = block[j * WIDTH + i];
      for (uint k = 0u; k < j; ++k) value -= block[i * WIDTH + k] * block[j * WIDTH + k];
      if (i == j) {
        positive = positive && value > SUM(0) && !(is_nan(value) || is_inf(value));
        precise SUM root = sqrt(value);
        factor[j * WIDTH + j] = root;
      } else {
        precise SUM entry = value / factor[j * WIDTH + j];
        block[i * WIDTH + j] = entry;
      }
    }
  }
  for (uint j = 0u; j < WIDTH; ++j) {
    if (!positive) {
      SUM diagonal = block[j * WIDTH + j];
      precise SUM root = diagonal > SUM(0) ? SUM(1) / sqrt(diagonal) : SUM(1);
      for (uint i = 0u; i < WIDTH; ++i) factor[i * WIDTH + j] = i == j ? root : SUM(0);
      continue;
    }
    precise SUM pivot = SUM(1) / factor[j * WIDTH + j];
    factor[j * WIDTH + j] = pivot;
    for (uint i = j + 1u; i < WIDTH; ++i) {
      precise SUM sum = SUM(0);
      for (uint k = j; k < i; ++k) sum -= block[i * WIDTH + k] * factor[k * WIDTH + j];
      precise SUM entry = sum / factor[i * WIDTH + i];
      factor[i * WIDTH + j] = entry;
    }
  }
  return positive;
}

//// jacobian_products
// sum = entry (a, b) of block m of JᵀJ: Σ over what two blocks share of J_rowsᵀ J_columns, by
// groups of slots; column_numbers names columns by group and coordinate.

uint area = block_rows * block_columns;
uint m = first + i / area;
uint a = i % area / block_columns;
uint b = i % block_columns;
uint end = starts[m + 1u];
precise SUM sum = SUM(0);
for (uint e = starts[m]; e < end; ++e) {
  uint instance = entries[2u * e];
  uint groups = entries[2u * e + 1u];
  uint u = column_numbers[(groups & 0xffffu) * 16u + a];
  uint v = column_numbers[(groups >> 16u) * 16u + b];
  if (u == 0xffffffffu || v == 0xffffffffu) continue;
  for (uint row = 0u; row < residuals; ++row) {
    REAL left = jacobian[(row * columns + u) * instances + instance];
    REAL right = jacobian[(row * columns + v) * instances + instance];
    sum += SUM(left) * SUM(right);
  }
}

//// matrix_rows
// `lanes` invocations share a row of blocks, all of whose scalar rows have the same columns. Two
// columns are read at a time, so that loads of both are on their way together.

uint lane = gl_LocalInvocationIndex % lanes;
uint rows = GROUP / lanes;
uint grid = gl_NumWorkGroups.x * rows;
for (uint base = gl_WorkGroupID.x * rows; base < count; base += grid) {
  uint block = base + gl_LocalInvocationIndex / lanes;
  #each begin_row(sum_$);
  if (block < count) {
    uint word = 4u * (first + block);
    uint columns = row_words[word + 1u];
    uint length = row_words[word + 2u];
    uint values_0 = row_words[word];
    #rest uint values_$ = values_$before + length;
    uint e = lane;
    for (; e + lanes < length; e += 2u * lanes) {
      uint next = e + lanes;
      REAL p = direction[column_numbers[columns + e]];
      REAL p_next = direction[column_numbers[columns + next]];
      #each REAL a_$ = matrix[values_$ + e];
      #each REAL b_$ = matrix[values_$ + next];
      #each add_row(sum_$, a_$, p);
      #each add_row(sum_$, b_$, p_next);
    }
    if (e < length) {
      REAL p = direction[column_numbers[columns + e]];
      #each add_row(sum_$, matrix[values_$ + e], p);
    }
  }
  fold_row_sums();
  if (block < count && lane == 0u) {
    uint k = product_first + block * WIDTH;

//// open_conditional_if
for (uint i = gl_LocalInvocationIndex; i < count; i += GROUP) opened[i] = opens ? workgroups[i] : 0u;

//// packed
// Place of (i, j) in the packed upper triangle of a block.
uint packed(uint width, uint i, uint j) {
  uint row = min(i, j);
  return row * (2u * width - row + 1u) / 2u + max(i, j) - row;
}

//// point_norms_scalar
if (masked != 0u && fixed_scalars[k] != 0u) {
  gradient[k] = REAL(0);
  continue;
}
SUM g = SUM(gradient[k]);
SUM x = SUM(point[k]);
add(g_squared, g * g);
add(x_squared, x * x);
greatest = maximum(greatest, abs(g));

//// scaled_norms_scalar
if (scalars[SCALES_LATER] != SUM(0) && scale[k] == REAL(0)) {
  precise SUM here = SUM(1) / sqrt(h);
  if (here > SUM(0) && !is_inf(here * here)) scale[k] = REAL(here);
}
if (h == SUM(0) || (masked != 0u && fixed_scalars[k] != 0u)) continue;
SUM g = SUM(gradient[k]);
SUM x = SUM(point[k]);
SUM d = SUM(delta[k]);
precise SUM scaled = is_inf(h) ? h : g / sqrt(h);
add(g_squared, scaled * scaled);
add(x_squared, h * x * x);
add(step_squared, h * d * d);
greatest = maximum(greatest, abs(scaled));

//// schur_rows
// WIDTH neighbouring invocations share a row. Every invocation of a workgroup goes through the loop
// as often as the others.

uint lane = gl_LocalInvocationIndex % WIDTH;
uint rows = GROUP / WIDTH;
uint grid = gl_NumWorkGroups.x * rows;
for (uint base = gl_WorkGroupID.x * rows; base < count; base += grid) {
  uint row = base + gl_LocalInvocationIndex / WIDTH;
  precise SUM sum = SUM(0);

//// solve_block
// The residual of fixed scalars is 0, so that their direction stays 0.
if (masked != 0u) {
  #each if (fixed_scalars[k + $u] != 0u) r_$ = REAL(0);
}
#if unpreconditioned
#each REAL z_$ = r_$;
#else
apply_inverse();
#end

//// stop_with_solver
#if predicated
if (scalars[NEXT_STATE] != SUM(0)) return;  // the solver is done
#end

//// store_block
#each residual[k + $u] = r_$;
#if !unpreconditioned
#each preconditioned[k + $u] = z_$;
#end

//// store_norms
store_sum(0, g_squared, partials);
store_sum(1, x_squared, partials);
store_maximum(2, greatest, partials);

//// store_scaled_norms
store_sum(0, g_squared, partials);
store_sum(1, x_squared, partials);
store_sum(2, step_squared, partials);
store_maximum(3, greatest, partials);
