//// apply_preconditioner
void main() {
  GRID(b, count) {
    uint k = first + b * WIDTH;
    #each REAL r_$ = vector[k + $u];
    apply_inverse();
    #each result[k + $u] = z_$;
  }
}

//// jacobi_scale
void main() {
  GRID(i, count * WIDTH) {
    uint b = i / WIDTH;
    uint j = i % WIDTH;
    uint diagonal = j * (2u * WIDTH - j + 1u) / 2u;
    precise SUM norm = sqrt(SUM(blocks[blocks_first + b * PACKED + diagonal]));
    precise SUM sum = scalars[added] + norm;
    precise SUM value = SUM(1) / sum;
    scale[first + i] = sum > SUM(0) && !is_inf(value * value) ? REAL(value) : REAL(0);
  }
}

//// precondition
// Damps the diagonal of each block, takes fixed scalars out of it, and inverts it.

#include inverse_factor

void main() {
  GRID(b, count) {
    SUM block[WIDTH * WIDTH];
    uint k = first + b * WIDTH;
    uint p = blocks_first + b * PACKED;
    for (uint i = 0u; i < WIDTH; ++i) {
      for (uint j = i; j < WIDTH; ++j) {
        precise SUM value = SUM(blocks[p++]);
        if (i == j) {
          precise SUM squared = SUM(scale[k + i]) * SUM(scale[k + i]);
          precise SUM clamped = clamp(squared * value, scalars[MIN_DIAGONAL], scalars[MAX_DIAGONAL]);
          precise SUM added = scalars[LAMBDA] * clamped / squared;
          if (squared == SUM(0)) added = scalars[LAMBDA] * (value > SUM(0) ? value : SUM(1));
          if (masked != 0u && fixed_scalars[k + i] != 0u) added = SUM(0);
          damping[k + i] = REAL(added);
          value = value + added;
          if (masked != 0u && fixed_scalars[k + i] != 0u) value = SUM(1);
        } else if (masked != 0u && (fixed_scalars[k + i] != 0u || fixed_scalars[k + j] != 0u)) {
          value = SUM(0);
        }
        block[i * WIDTH + j] = value;
      }
    }
    SUM factor[WIDTH * WIDTH];
    inverse_factor(block, factor);
    p = blocks_first + b;
    for (uint i = 0u; i < WIDTH; ++i) {
      for (uint j = i; j < WIDTH; ++j) {
        precise SUM sum = SUM(0);
        for (uint k = j; k < WIDTH; ++k) sum += factor[k * WIDTH + i] * factor[k * WIDTH + j];
        inverse_blocks[p] = REAL(sum);
        p += count;
      }
    }
  }
}

//// scaled_norms
// Norms in which a change of the unknowns' units cancels out.
void main() {
  #include begin_scaled_norms
  GRID(i, count * WIDTH) {
    uint b = i / WIDTH;
    uint j = i % WIDTH;
    uint k = first + i;
    uint diagonal = j * (2u * WIDTH - j + 1u) / 2u;
    SUM h = SUM(blocks[blocks_first + b * PACKED + diagonal]);
    #include scaled_norms_scalar
  }
  #include store_scaled_norms
}
