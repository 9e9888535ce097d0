//// schur_back
// δ of eliminated blocks from that of kept ones.

#include packed

void main() {
  GRID(i, count) {
    uint block = i / block_columns;
    uint t = i % block_columns;
    uint scalar = eliminated_scalars[first + block];
    precise SUM sum = SUM(0);
    for (uint s = 0u; s < block_columns; ++s) {
      uint at = inverse_first + block + packed(block_columns, s, t) * inverses;
      sum -= SUM(inverse_blocks[at]) * SUM(gradient[scalar + s]);
    }
    uint end = starts[first + block + 1u];
    for (uint e = starts[first + block]; e < end; ++e) {
      uint column = entries[3u * e] + t;
      uint kept = entries[3u * e + 1u];
      uint rows = entries[3u * e + 2u];
      for (uint a = 0u; a < rows; ++a) {
        sum -= SUM(couplings[column + a * block_columns]) * SUM(kept_step[kept + a]);
      }
    }
    delta[scalar + t] = REAL(sum);
  }
}

//// schur_blocks
// Blocks of S = B + Λ − its pieces, both triangles; diagonal ones packed as well.

#include packed

void main() {
  GRID(i, count) {
    uint area = block_rows * block_columns;
    uint m = first + i / area;
    uint a = i % area / block_columns;
    uint b = i % block_columns;
    uint word = 7u * m;
    uint meeting = outputs[word];
    uint scalar = outputs[word + 5u];
    bool diagonal = scalar != 0xffffffffu;
    if (diagonal && b < a) continue;
    precise SUM sum = SUM(0);
    if (diagonal) {
      sum = SUM(blocks[diagonals[scalar] + packed(block_columns, a, b)]);
      if (a == b) sum = sum + SUM(damping[scalar + a]);
    } else if (meeting != 0xffffffffu) {
      sum = SUM(meetings[meeting + i % area]);
    }
    if (masked != 0u && diagonal && (fixed_scalars[scalar + a] != 0u || fixed_scalars[scalar + b] != 0u)) {
      sum = a == b ? SUM(1) : SUM(0);
    }
    uint end = starts[m + 1u];
    for (uint e = starts[m]; e < end; ++e) sum -= SUM(pieces[entries[e] + i % area]);
    REAL value = REAL(sum);
    complement[outputs[word + 1u] + a * outputs[word + 2u] + b] = value;
    complement[outputs[word + 3u] + b * outputs[word + 4u] + a] = value;
    if (diagonal) packed_blocks[outputs[word + 6u] + packed(block_columns, a, b)] = value;
  }
}

//// schur_coupling
// E C⁻¹ of meetings, an invocation an entry.

#include packed

void main() {
  GRID(i, count) {
    uint area = block_rows * block_columns;
    uint m = first + i / area;
    uint a = i % area / block_columns;
    uint t = i % block_columns;
    uint row = entries[2u * m] + a * block_columns;
    uint block = inverse_first + entries[2u * m + 1u];
    precise SUM sum = SUM(0);
    for (uint s = 0u; s < block_columns; ++s) {
      uint at = block + packed(block_columns, s, t) * inverses;
      sum += SUM(meetings[row + s]) * SUM(inverse_blocks[at]);
    }
    couplings[row + t] = REAL(sum);
  }
}

//// schur_damping
void main() {
  GRID(i, count) {
    precise SUM squared = SUM(scale[i]) * SUM(scale[i]);
    precise SUM scaled = squared * SUM(blocks[diagonals[i]]);
    SUM clamped = clamp(scaled, scalars[MIN_DIAGONAL], scalars[MAX_DIAGONAL]);
    precise SUM added = scalars[LAMBDA] * clamped / squared;
    SUM diagonal = SUM(blocks[diagonals[i]]);
    if (squared == SUM(0)) added = scalars[LAMBDA] * (diagonal > SUM(0) ? diagonal : SUM(1));
    if (masked != 0u && fixed_scalars[i] != 0u) added = SUM(0);
    damping[i] = REAL(added);
  }
}

//// schur_gradient
shared SUM row_sums[GROUP];

void main() {
  #include schur_rows
    if (row < count) {
      uint block = row_words[5u * row + 3u];
      uint a = row_words[5u * row + 4u];
      uint end = starts[block + 1u];
      for (uint e = starts[block] + lane; e < end; e += WIDTH) {
        uint width = entries[3u * e + 2u];
        uint left = entries[3u * e] + a * width;
        uint right = entries[3u * e + 1u];
        for (uint t = 0u; t < width; ++t) sum += SUM(couplings[left + t]) * SUM(gradient[right + t]);
      }
    }
    #include add_row_sums
    if (row < count && lane == 0u) {
      precise SUM value = SUM(gradient[kept_scalars[row]]) - row_sums[gl_LocalInvocationIndex];
      reduced_gradient[row] = REAL(value);
    }
  }
}

//// schur_invert
// Blocks in a list, whose damping is there: first scalar and place of the packed triangle.

#include inverse_factor

void main() {
  GRID(b, count) {
    SUM block[WIDTH * WIDTH];
    uint k = places[2u * (first + b)];
    uint p = places[2u * (first + b) + 1u];
    for (uint i = 0u; i < WIDTH; ++i) {
      for (uint j = i; j < WIDTH; ++j) {
        precise SUM value = SUM(blocks[p++]);
        if (i == j) value = value + SUM(damping[k + i]);
        if (masked != 0u && (fixed_scalars[k + i] != 0u || fixed_scalars[k + j] != 0u)) {
          value = i == j ? SUM(1) : SUM(0);
        }
        block[i * WIDTH + j] = value;
      }
    }
    SUM factor[WIDTH * WIDTH];
    bool positive = inverse_factor(block, factor);
    precise SUM spoilt = positive ? SUM(0) : scalars[ZERO] / scalars[ZERO];
    p = inverse_first + b;
    for (uint i = 0u; i < WIDTH; ++i) {
      for (uint j = i; j < WIDTH; ++j) {
        precise SUM sum = spoilt;
        for (uint k = j; k < WIDTH; ++k) sum += factor[k * WIDTH + i] * factor[k * WIDTH + j];
        inverse_blocks[p] = REAL(sum);
        p += count;
      }
    }
  }
}

//// schur_meetings
// One invocation an entry of a meeting of two blocks.
void main() {
  GRID(i, count) {
    #include jacobian_products
    bool fixed_row = masked != 0u && fixed_scalars[outputs[3u * m + 1u] + a] != 0u;
    bool fixed_column = masked != 0u && fixed_scalars[outputs[3u * m + 2u] + b] != 0u;
    if (fixed_row || fixed_column) sum = SUM(0);
    uint o = outputs[3u * m] + i % area;
    if (overwrite == 0u) sum = SUM(meetings[o]) + sum;
    meetings[o] = REAL(sum);
  }
}

//// schur_pieces
// Sums of products (E C⁻¹) Eᵀ, an invocation an entry of a piece; `inner` columns inside.
void main() {
  GRID(i, count) {
    uint area = block_rows * block_columns;
    uint piece = first + i / area;
    uint a = i % area / block_columns;
    uint b = i % block_columns;
    uint end = starts[piece + 1u];
    precise SUM sum = SUM(0);
    for (uint e = starts[piece]; e < end; ++e) {
      uint left = entries[2u * e] + a * inner;
      uint right = entries[2u * e + 1u] + b * inner;
      for (uint t = 0u; t < inner; ++t) {
        sum += SUM(couplings[left + t]) * SUM(meetings[right + t]);
      }
    }
    pieces[outputs[piece] + i % area] = REAL(sum);
  }
}

//// schur_product
// An iteration's direction and its product with S in one: next_direction = preconditioned + β
// direction, which every row reads as it makes it.

shared SUM row_sums[GROUP];

void main() {
  begin_direction();
  begin_sum(pq);
  #include schur_rows
    if (row < count) {
      uint values = row_words[5u * row];
      uint columns = row_words[5u * row + 1u];
      uint end = row_words[5u * row + 2u];
      for (uint e = lane; e < end; e += WIDTH) {
        uint c = column_numbers[columns + e];
        precise REAL p = preconditioned[c] + REAL(beta) * direction[c];
        sum += SUM(complement[values + e]) * SUM(p);
      }
    }
    #include add_row_sums
    if (row < count && lane == 0u) {
      precise REAL p = preconditioned[row] + REAL(beta) * direction[row];
      REAL q = REAL(row_sums[gl_LocalInvocationIndex]);
      next_direction[row] = p;
      product[row] = q;
      add(pq, SUM(p) * SUM(q));
    }
  }
  store_sum(0, pq, curvature);
}

//// schur_scatter
void main() {
  GRID(i, count) {
    delta[kept_scalars[i]] = kept_step[i];
    residual[kept_scalars[i]] = kept_residual[i];
  }
}
