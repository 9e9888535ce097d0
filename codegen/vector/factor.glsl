//// front_assemble
// Adds what the children left to the pivots' columns.

shared REAL tile[1024];

void main() {
  for (uint w = gl_WorkGroupID.x; w < count; w += gl_NumWorkGroups.x) {
    #include front_item
    for (uint t = gl_LocalInvocationIndex; t < 1024u; t += GROUP) tile[t] = REAL(0);
    barrier();
    #include front_children
    for (uint t = gl_LocalInvocationIndex; t < 1024u; t += GROUP) {
      uint r = r0 + t / 32u;
      uint c = c0 + t % 32u;
      if (r < rows && c < pivots && c <= r) {
        uint at = panel + r * pivots + c;
        precise REAL sum = panels[at] + tile[t];
        panels[at] = sum;
      }
    }
    barrier();
  }
}

//// front_backward
// Lᵀ x = S z for the pivots of a step, in every workgroup of its own, and z −= S Lᵀ x for those before.

shared REAL lower[528];
shared REAL part[32];

void main() {
  for (uint w = gl_WorkGroupID.x; w < count; w += gl_NumWorkGroups.x) {
    #include front_item
    uint block = r0;
    uint width = min(32u, pivots - block);
    uint place = fronts[word + 5u];
    #include front_diagonal
    for (uint i = gl_LocalInvocationIndex; i < width; i += GROUP) part[i] = solved[place + block + i];
    barrier();
    for (uint p = width - 1u; p > 0u; --p) {
      precise REAL x = part[p] * lower[p * (p + 1u) / 2u + p];
      for (uint i = gl_LocalInvocationIndex; i < p; i += GROUP) {
        part[i] = fma(-lower[p * (p + 1u) / 2u + i], x, part[i]);
      }
      barrier();
    }
    for (uint i = gl_LocalInvocationIndex; i < width; i += GROUP) {
      precise REAL x = part[i] * lower[i * (i + 1u) / 2u + i];
      lower[i * (i + 1u) / 2u + i] = x;
      if (r0 == c0) solution[pivot_scalars[place + block + i]] = x;
    }
    barrier();
    for (uint c = c0 + gl_LocalInvocationIndex; c < c0 + 32u && r0 != c0; c += GROUP) {
      REAL value = solved[place + c];
      for (uint i = 0u; i < width; ++i) {
        value = fma(-panels[panel + (block + i) * pivots + c], lower[i * (i + 1u) / 2u + i], value);
      }
      solved[place + c] = value;
    }
    barrier();
  }
}

//// front_below
// z −= S Lᵀ x of the rows below the pivots, for 32 pivots.

shared REAL parts[GROUP];

void main() {
  for (uint w = gl_WorkGroupID.x; w < count; w += gl_NumWorkGroups.x) {
    #include front_item
    uint c = c0 + gl_LocalInvocationIndex % 32u;
    uint list = fronts[word + 8u];
    REAL sum = REAL(0);
    if (c < pivots) {
      for (uint r = gl_LocalInvocationIndex / 32u; r < rows - pivots; r += GROUP / 32u) {
        sum = fma(panels[panel + (pivots + r) * pivots + c], solution[row_scalars[list + r]], sum);
      }
    }
    parts[gl_LocalInvocationIndex] = sum;
    barrier();
    if (gl_LocalInvocationIndex < 32u && c < pivots) {
      precise REAL value = solved[fronts[word + 5u] + c];
      for (uint k = 0u; k < GROUP / 32u; ++k) value = value - parts[32u * k + gl_LocalInvocationIndex];
      solved[fronts[word + 5u] + c] = value;
    }
    barrier();
  }
}

//// front_entries
// Every entry of the matrix has a place of its own in the panels.
void main() {
  GRID(i, count) {
    uint e = 4u * (first + i);
    uint row = entries[e + 2u];
    uint column = entries[e + 3u];
    precise SUM value = SUM(matrix[entries[e]]);
    if (row == column) value = value + SUM(damping[row]);
    if (masked != 0u && (fixed_scalars[row] != 0u || fixed_scalars[column] != 0u)) {
      value = row == column ? SUM(1) : SUM(0);
    }
    panels[entries[e + 1u]] = REAL(value);
    if (row == column) {
      precise SUM limit = scalars[VANISHING] * abs(value);
      limits[row] = REAL(limit);
    }
  }
}

//// front_finish
// The end of the solver, from the pivots.
void main() {
  begin_sum(failed);
  begin_sum(dropped);
  for (uint i = gl_LocalInvocationIndex; i < count; i += GROUP) {
    add(failed, (status[i] & 0xffu) != 0u ? SUM(1) : SUM(0));
    add(dropped, SUM((status[i] >> 8u) & 0xffu));
  }
  SUM total = workgroup_sum(failed);
  SUM sum = workgroup_sum(dropped);
  if (gl_LocalInvocationIndex != 0u) return;
  scalars[STATE] = total == SUM(0) ? CONVERGED : BREAKDOWN;
  scalars[ITERATIONS] = SUM(0);
  scalars[VANISHED] = sum;
}

//// front_forward
// L z = y for the pivots of a step, in every workgroup of its own, and y −= L z in further rows.
// Panels have L S, so that S z is found here.

shared REAL lower[528];
shared REAL part[32];

void main() {
  for (uint w = gl_WorkGroupID.x; w < count; w += gl_NumWorkGroups.x) {
    #include front_item
    uint block = c0;
    uint width = min(32u, pivots - block);
    uint right = fronts[word + 4u];
    #include front_diagonal
    for (uint i = gl_LocalInvocationIndex; i < width; i += GROUP) part[i] = vectors[right + block + i];
    barrier();
    for (uint p = 0u; p + 1u < width; ++p) {
      precise REAL z = part[p] * lower[p * (p + 1u) / 2u + p];
      for (uint i = p + 1u + gl_LocalInvocationIndex; i < width; i += GROUP) {
        part[i] = fma(-lower[i * (i + 1u) / 2u + p], z, part[i]);
      }
      barrier();
    }
    for (uint i = gl_LocalInvocationIndex; i < width; i += GROUP) {
      bool negated = lower[i * (i + 1u) / 2u + i] < REAL(0);
      precise REAL z = part[i] * lower[i * (i + 1u) / 2u + i];
      lower[i * (i + 1u) / 2u + i] = z;
      if (r0 == c0) solved[fronts[word + 5u] + block + i] = negated ? -z : z;
    }
    barrier();
    uint end = min(r0 + 32u, rows);
    for (uint r = max(r0, c0 + width) + gl_LocalInvocationIndex; r < end; r += GROUP) {
      REAL value = vectors[right + r];
      for (uint q = 0u; q < width; ++q) {
        value = fma(-panels[panel + r * pivots + block + q], lower[q * (q + 1u) / 2u + q], value);
      }
      vectors[right + r] = value;
    }
    barrier();
  }
}

//// front_gather
// The right side of a front: that of its pivots, and what the children left.

shared REAL part[32];

void main() {
  for (uint w = gl_WorkGroupID.x; w < count; w += gl_NumWorkGroups.x) {
    #include front_item
    for (uint i = gl_LocalInvocationIndex; i < 32u; i += GROUP) {
      REAL value = REAL(0);
      if (r0 + i < pivots) {
        uint scalar = pivot_scalars[fronts[word + 5u] + r0 + i];
        if (masked == 0u || fixed_scalars[scalar] == 0u) value = right_side[scalar];
      }
      part[i] = negative != 0u ? -value : value;
    }
    barrier();
    for (uint child = fronts[word + 6u]; child < fronts[word + 7u]; ++child) {
      uint from = 10u * child;
      uint cut = fronts[from + 9u];
      uint list = fronts[from + 8u];
      uint source = fronts[from + 4u] + fronts[from + 1u];
      uint end = cuts[cut + r0 / 32u + 1u];
      for (uint i = cuts[cut + r0 / 32u] + gl_LocalInvocationIndex; i < end; i += GROUP) {
        uint at = places[list + i] - r0;
        precise REAL sum = part[at] + vectors[source + i];
        part[at] = sum;
      }
      barrier();
    }
    for (uint i = gl_LocalInvocationIndex; i < 32u; i += GROUP) {
      if (r0 + i < rows) vectors[fronts[word + 4u] + r0 + i] = part[i];
    }
    barrier();
  }
}

//// front_panel
// Factorises the pivots' block of a step, in every workgroup of its own, and computes the columns of
// L S in further rows. The block itself stays as it is, since others read it; its factor goes above
// its diagonal, and the reciprocals of the diagonal behind the panel: with the pivot's sign, and 0
// for pivots that vanish.
// A pivot changes block and rows at one time; columns are divided by the roots of pivots at the end.
// status of the step's first pivot: in its lower 8 bits 1 + the number in the step of the first one
// that is refused, 0: none; in the next 8 the number of those that vanish, then that of negative ones.

shared REAL lower[528];
shared REAL tile[1056];
shared REAL limit[32];

void main() {
  uint tx = gl_LocalInvocationIndex % 8u;
  uint ty = gl_LocalInvocationIndex / 8u;
  for (uint w = gl_WorkGroupID.x; w < count; w += gl_NumWorkGroups.x) {
    #include front_item
    uint width = min(32u, pivots - c0);
    uint from = max(r0, c0 + width);
    uint height = min(r0 + 32u, rows) - from;
    for (uint i = gl_LocalInvocationIndex; i < width; i += GROUP) {
      limit[i] = scalars[VANISHING] > SUM(0) ? limits[pivot_scalars[fronts[word + 5u] + c0 + i]] : REAL(-1);
    }
    for (uint t = gl_LocalInvocationIndex; t < 1024u; t += GROUP) {
      uint i = t / 32u;
      uint j = t % 32u;
      if (j <= i && i < width) lower[i * (i + 1u) / 2u + j] = panels[panel + (c0 + i) * pivots + c0 + j];
      if (i < height && j < width) tile[i * 33u + j] = panels[panel + (from + i) * pivots + c0 + j];
    }
    barrier();
    for (uint p = 0u; p < width; ++p) {
      REAL pivot = lower[p * (p + 1u) / 2u + p];
      precise REAL reciprocal = REAL(1) / pivot;
      REAL inverse = abs(pivot) <= limit[p] ? REAL(0) : reciprocal;
      for (uint j = p + 1u + tx; j < width; j += 8u) {
        REAL right = lower[j * (j + 1u) / 2u + p];
        for (uint k = 0u; k < 4u; ++k) {
          uint i = ty + 8u * k;
          uint at = i * (i + 1u) / 2u;
          if (j <= i && i < width) {
            precise REAL factor = lower[at + p] * inverse;
            lower[at + j] = fma(-factor, right, lower[at + j]);
          }
          if (i < height) {
            precise REAL factor = tile[i * 33u + p] * inverse;
            tile[i * 33u + j] = fma(-factor, right, tile[i * 33u + j]);
          }
        }
      }
      barrier();
    }
    if (gl_LocalInvocationIndex == 0u && r0 == c0) {
      uint failed = 0u;
      uint counts = 0u;
      for (uint p = width; p > 0u; --p) {
        precise REAL pivot = lower[(p - 1u) * p / 2u + p - 1u];
        precise REAL none = pivot - pivot;
        if (abs(pivot) <= limit[p - 1u]) {
          counts += 256u;
        } else if (none == REAL(0) && pivot < REAL(0) && indefinite != 0u) {
          counts += 65536u;
        } else if (!(pivot > REAL(0) && none == REAL(0))) {
          failed = p;
        }
      }
      status[fronts[word + 5u] + c0] = failed + counts;
    }
    barrier();
    for (uint i = gl_LocalInvocationIndex; i < width; i += GROUP) {
      uint at = i * (i + 1u) / 2u + i;
      REAL pivot = lower[at];
      precise REAL reciprocal = REAL(1) / sqrt(abs(pivot));
      bool vanishes = abs(pivot) <= limit[i];
      REAL otherwise = indefinite != 0u && pivot < REAL(0) ? -reciprocal : REAL(uintBitsToFloat(0x7fc00000u));
      lower[at] = vanishes ? REAL(0) : pivot > REAL(0) ? reciprocal : otherwise;
    }
    barrier();
    for (uint t = gl_LocalInvocationIndex; t < 1024u; t += GROUP) {
      uint i = t / 32u;
      uint j = t % 32u;
      if (i < height && j < width) {
        precise REAL value = tile[i * 33u + j] * abs(lower[j * (j + 1u) / 2u + j]);
        panels[panel + (from + i) * pivots + c0 + j] = value;
      }
      if (r0 == c0 && i < j && j < width) {
        precise REAL value = lower[j * (j + 1u) / 2u + i] * abs(lower[i * (i + 1u) / 2u + i]);
        panels[panel + (c0 + i) * pivots + c0 + j] = value;
      }
      if (r0 == c0 && i == j && j < width) panels[panel + rows * pivots + c0 + i] = lower[i * (i + 1u) / 2u + i];
    }
    barrier();
  }
}

//// front_trailing
// Brings the pivots' columns of a tile up to date with the columns of one step.

shared REAL left[264];
shared REAL right[264];

void main() {
  uint tx = gl_LocalInvocationIndex % 8u;
  uint ty = gl_LocalInvocationIndex / 8u;
  for (uint w = gl_WorkGroupID.x; w < count; w += gl_NumWorkGroups.x) {
    #include front_item
    uint begin = pivot_first;
    uint end = begin + 32u;
    REAL sum_0_0 = REAL(0);
    REAL sum_0_1 = REAL(0);
    REAL sum_0_2 = REAL(0);
    REAL sum_0_3 = REAL(0);
    REAL sum_1_0 = REAL(0);
    REAL sum_1_1 = REAL(0);
    REAL sum_1_2 = REAL(0);
    REAL sum_1_3 = REAL(0);
    REAL sum_2_0 = REAL(0);
    REAL sum_2_1 = REAL(0);
    REAL sum_2_2 = REAL(0);
    REAL sum_2_3 = REAL(0);
    REAL sum_3_0 = REAL(0);
    REAL sum_3_1 = REAL(0);
    REAL sum_3_2 = REAL(0);
    REAL sum_3_3 = REAL(0);
    #include front_products
    REAL sums[16] = REAL[16](sum_0_0, sum_0_1, sum_0_2, sum_0_3, sum_1_0, sum_1_1, sum_1_2, sum_1_3,
                             sum_2_0, sum_2_1, sum_2_2, sum_2_3, sum_3_0, sum_3_1, sum_3_2, sum_3_3);
    for (uint k = 0u; k < 16u; ++k) {
      uint r = r0 + ty + 8u * (k / 4u);
      uint c = c0 + tx + 8u * (k % 4u);
      if (r < rows && c < pivots && c <= r) {
        uint at = panel + r * pivots + c;
        precise REAL value = panels[at] + sums[k];
        panels[at] = value;
      }
    }
  }
}

//// front_update
// Computes the update matrix of a front: the update matrices of its children less L S Lᵀ of the rows below.

shared REAL tile[1024];
shared REAL left[264];
shared REAL right[264];

void main() {
  uint tx = gl_LocalInvocationIndex % 8u;
  uint ty = gl_LocalInvocationIndex / 8u;
  for (uint w = gl_WorkGroupID.x; w < count; w += gl_NumWorkGroups.x) {
    #include front_item
    for (uint t = gl_LocalInvocationIndex; t < 1024u; t += GROUP) tile[t] = REAL(0);
    barrier();
    #include front_children
    REAL sum_0_0 = tile[(ty) * 32u + tx];
    REAL sum_0_1 = tile[(ty) * 32u + tx + 8u];
    REAL sum_0_2 = tile[(ty) * 32u + tx + 16u];
    REAL sum_0_3 = tile[(ty) * 32u + tx + 24u];
    REAL sum_1_0 = tile[(ty + 8u) * 32u + tx];
    REAL sum_1_1 = tile[(ty + 8u) * 32u + tx + 8u];
    REAL sum_1_2 = tile[(ty + 8u) * 32u + tx + 16u];
    REAL sum_1_3 = tile[(ty + 8u) * 32u + tx + 24u];
    REAL sum_2_0 = tile[(ty + 16u) * 32u + tx];
    REAL sum_2_1 = tile[(ty + 16u) * 32u + tx + 8u];
    REAL sum_2_2 = tile[(ty + 16u) * 32u + tx + 16u];
    REAL sum_2_3 = tile[(ty + 16u) * 32u + tx + 24u];
    REAL sum_3_0 = tile[(ty + 24u) * 32u + tx];
    REAL sum_3_1 = tile[(ty + 24u) * 32u + tx + 8u];
    REAL sum_3_2 = tile[(ty + 24u) * 32u + tx + 16u];
    REAL sum_3_3 = tile[(ty + 24u) * 32u + tx + 24u];
    uint begin = 0u;
    uint end = pivots;
    #include front_products
    REAL sums[16] = REAL[16](sum_0_0, sum_0_1, sum_0_2, sum_0_3, sum_1_0, sum_1_1, sum_1_2, sum_1_3,
                             sum_2_0, sum_2_1, sum_2_2, sum_2_3, sum_3_0, sum_3_1, sum_3_2, sum_3_3);
    for (uint k = 0u; k < 16u; ++k) {
      uint r = r0 + ty + 8u * (k / 4u);
      uint c = c0 + tx + 8u * (k % 4u);
      if (r < rows && c >= pivots && c <= r) {
        uint i = r - pivots;
        remains[fronts[word + 3u] - remains_first + i * (i + 1u) / 2u + c - pivots] = sums[k];
      }
    }
  }
}
