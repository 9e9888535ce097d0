//// coarse_answer
void main() {
  GRID(e, count) {
    if (follows[e] == 0u) continue;
    uint k = first + aggregates[e] * WIDTH;
    REAL answer = answers[entries[e]];
    for (uint f = 0u; f < WIDTH; ++f) {
      precise REAL sum = vectors[f * count + e] - REAL(weights[k + f]) * answer;
      vectors[f * count + e] = sum;
    }
  }
}

//// coarse_column
// Column `function` of the aggregates of one colour, whose sources begin at `first_source`.
// Dependent vectors give a singular matrix: its diagonal is raised a little.
void main() {
  #each begin_sum(sum_$);
  uint g = gl_WorkGroupID.x;
  uint end = starts[g + 1u];
  for (uint e = starts[g] + gl_LocalInvocationIndex; e < end; e += GROUP) {
    uint s = entries[e];
    precise REAL value = product[s] + damping[s] * direction[s];
    #each add(sum_$, SUM(vectors[$u * count + e]) * SUM(value));
  }
  #each SUM total_$ = workgroup_sum(sum_$);
  if (gl_LocalInvocationIndex == 0u) {
    uint source = sources[first_source + g];
    if (source == 0xffffffffu) return;
    uint column = source * WIDTH + function;
    uint row = g * WIDTH;
    #each
    if (row + $u == column) {
      #if wide
      total_$ = total_$ > SUM(0) ? total_$ * 1.000000000001_s : SUM(1);
      #else
      total_$ = total_$ > SUM(0) ? total_$ * 1.000001_s : SUM(1);
      #end
    }
    matrix[(row + $u) * unknowns + column] = total_$;
    #end
  }
}

//// coarse_eliminate
// Gauss–Jordan elimination in place, panel by panel, from one matrix to another: coarse_panel has
// made the rows of this one. Its columns count as 0 before.
// Source: Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., section 14.4.
void main() {
  uint n = unknowns;
  GRID(i, count) {
    uint row = i / n;
    uint column = i - row * n;
    precise SUM value = SUM(0);
    if (row - first < pivots) {
      value = panel[(row - first) * n + column];
    } else {
      if (column - first >= pivots) value = matrix[i];
      uint left = row * n + first;
      for (uint b = 0u; b < pivots; ++b) {
        value = value - matrix[left + b] * panel[b * n + column];
      }
    }
    result[i] = value;
  }
}

//// coarse_expand
void main() {
  #include stop_with_solver
  GRID(e, count) {
    uint k = first + aggregates[e] * WIDTH;
    precise REAL sum = REAL(0);
    for (uint f = 0u; f < WIDTH; ++f) sum += REAL(weights[k + f]) * vectors[f * count + e];
    uint s = entries[e];
    if (overwrite == 0u) sum = result[s] + sum;
    result[s] = sum;
  }
}

//// coarse_multiply
// A workgroup for each row; its part of r·z goes beside those of the blocks.
void main() {
  #include stop_with_solver
  begin_sum(sum);
  uint row = gl_WorkGroupID.x;
  for (uint k = gl_LocalInvocationIndex; k < count; k += GROUP) {
    add(sum, inverse_matrix[row * count + k] * coarse_residual[k]);
  }
  SUM total = workgroup_sum(sum);
  if (gl_LocalInvocationIndex == 0u) {
    correction[row] = total;
    precise SUM product = total * coarse_residual[row];
    partials[out_first + row] = product;
    partials[out_first + out_stride + row] = SUM(0);
  }
}

//// coarse_panel
// Rows of a panel of pivots from `first` on, their own block B taken out: B⁻¹ A of these rows, and
// B⁻¹ itself at the columns of the panel. B is inverted by every workgroup for itself, pivot by
// pivot; a pivot that is not positive leaves its row and column out.

shared SUM panel_block[2u * WIDTH * WIDTH];

void main() {
  uint n = unknowns;
  uint size = pivots * pivots;
  for (uint k = gl_LocalInvocationIndex; k < size; k += GROUP) {
    uint row = k / pivots;
    panel_block[k] = matrix[(first + row) * n + first + (k - row * pivots)];
  }
  uint from = 0u;
  for (uint p = 0u; p < pivots; ++p) {
    barrier();
    uint to = WIDTH * WIDTH - from;
    SUM pivot = panel_block[from + p * pivots + p];
    precise SUM inverse_pivot = pivot > SUM(0) ? SUM(1) / pivot : SUM(0);
    for (uint k = gl_LocalInvocationIndex; k < size; k += GROUP) {
      uint row = k / pivots;
      uint column = k - row * pivots;
      SUM left = panel_block[from + row * pivots + p];
      SUM above = panel_block[from + p * pivots + column];
      precise SUM value = panel_block[from + k] - left * (inverse_pivot * above);
      if (row == p && column == p) {
        value = inverse_pivot;
      } else if (row == p) {
        value = inverse_pivot * above;
      } else if (column == p) {
        value = -left * inverse_pivot;
      }
      panel_block[to + k] = value;
    }
    from = to;
  }
  barrier();
  GRID(j, count) {
    bool inside = j - first < pivots;
    for (uint b = 0u; b < pivots; ++b) {
      uint row = from + b * pivots;
      precise SUM value = SUM(0);
      if (inside) {
        value = panel_block[row + j - first];
      } else {
        for (uint c = 0u; c < pivots; ++c) {
          value = value + panel_block[row + c] * matrix[(first + c) * n + j];
        }
      }
      panel[b * n + j] = value;
    }
  }
}

//// coarse_restrict
void main() {
  #include stop_with_solver
  #each begin_products(sum_$);
  uint g = gl_WorkGroupID.x;
  uint end = starts[g + 1u];
  for (uint e = starts[g] + gl_LocalInvocationIndex; e < end; e += GROUP) {
    REAL value = residual[entries[e]];
    #each add_rounded(sum_$, vectors[$u * count + e], value);
  }
  #each SUM total_$ = workgroup_products(sum_$);
  if (gl_LocalInvocationIndex == 0u) {
    #each coarse_residual[g * WIDTH + $u] = total_$;
  }
}

//// coarse_vectors
void main() {
  GRID(i, count) {
    uint from = entries[i];
    precise REAL value = offsets[i];
    if (from != 0xffffffffu) {
      REAL at = point[from & 0x7fffffffu];
      value = value + ((from >> 31u) != 0u ? -at : at);
    }
    vectors[i] = value;
  }
}
