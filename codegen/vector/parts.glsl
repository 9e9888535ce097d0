//// block_diagonal
void main() {
  GRID(i, count * WIDTH) {
    uint b = i / WIDTH;
    uint j = i % WIDTH;
    diagonal[first + i] = blocks[blocks_first + b * PACKED + j * (2u * WIDTH - j + 1u) / 2u];
  }
}

//// chunk_bounded_norms
void main() {
  #include begin_norms
  CHUNK(k) {
    #include bounded_norms_scalar
  }
  #include store_norms
}

//// chunk_curvature
void main() {
  begin_sum(pq);
  CHUNK(k) {
    REAL p = direction[k];
    precise REAL q = product[k] + damping[k] * p;
    if (masked != 0u && fixed_scalars[k] != 0u) q = REAL(0);
    product[k] = q;
    add(pq, SUM(p) * SUM(q));
  }
  store_sum(0, pq, partials);
}

//// chunk_norms
void main() {
  #include begin_norms
  CHUNK(k) {
    #include point_norms_scalar
  }
  #include store_norms
}

//// chunk_numbers
void main() {
  begin_sum(sum);
  uint end = starts[gl_WorkGroupID.x + 1u];
  for (uint e = starts[gl_WorkGroupID.x] + gl_LocalInvocationIndex; e < end; e += GROUP) {
    add(sum, SUM(numbers[entries[e]]));
  }
  store_sum(0, sum, partials);
}

//// chunk_products
void main() {
  begin_sum(squares);
  begin_sum(products);
  CHUNK(k) {
    SUM value = SUM(x[k]);
    add(squares, value * value);
    add(products, value * SUM(y[k]));
  }
  store_sum(0, squares, partials);
  store_sum(1, products, partials);
}

//// chunk_scaled_norms
void main() {
  #include begin_scaled_norms
  CHUNK(k) {
    SUM h = SUM(diagonal[k]);
    #include scaled_norms_scalar
  }
  #include store_scaled_norms
}

//// chunk_trial
// With r = −g − (JᵀJ + Λ) δ the linear model decreases by ½ δ·(r + Λδ − g).
void main() {
  REAL fraction = REAL(scalars[length]);
  begin_sum(decrease);
  begin_sum(squared);
  begin_sum(slope);
  CHUNK(k) {
    SUM d = SUM(delta[k]);
    precise REAL step = fraction * delta[k];
    precise SUM moved = bounded != 0u ? SUM(trial[k]) - SUM(point[k]) : SUM(step);
    add(decrease, SUM(0.5) * d * ((SUM(residual[k]) + SUM(damping[k]) * d) - SUM(gradient[k])));
    add(squared, moved * moved);
    add(slope, SUM(gradient[k]) * d);
  }
  store_sum(0, decrease, partials);
  store_sum(1, squared, partials);
  store_sum(2, slope, partials);
}

//// pack
void main() {
  GRID(e, count) {
    result[e] = source[places[e]];
  }
}

//// unpack
void main() {
  GRID(e, count) {
    result[places[e]] = source[e];
  }
}
