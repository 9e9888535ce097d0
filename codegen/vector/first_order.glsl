//// adam
void main() {
  REAL rate = REAL(scalars[rule + 0u]);
  REAL beta1 = REAL(scalars[rule + 1u]);
  REAL beta2 = REAL(scalars[rule + 2u]);
  REAL mean_bias = REAL(scalars[rule + 3u]);
  REAL square_bias = REAL(scalars[rule + 4u]);
  REAL epsilon = REAL(scalars[rule + 5u]);
  REAL decay = REAL(scalars[rule + 6u]);
  begin_sum(squared);
  GRID(i, count) {
    uint k = first + i;
    REAL x = point[k];
    REAL g = gradient[k];
    precise REAL mean = beta1 * means[k] + (REAL(1) - beta1) * g;
    precise REAL square = beta2 * squares[k] + (REAL(1) - beta2) * g * g;
    means[k] = mean;
    squares[k] = square;
    precise REAL moved = -rate * (mean / mean_bias) / (sqrt(square / square_bias) + epsilon);
    if (decay != REAL(0) && square != REAL(0)) moved -= decay * x;
    result[k] = x + moved;
    add(squared, SUM(moved) * SUM(moved));
  }
  store_sum(0, squared, partials);
}

//// combine_history
void main() {
  begin_sum(slope);
  begin_sum(squared);
  GRID(i, count) {
    SUM g = SUM(gradient[i]);
    precise SUM sum = overwrite == 0u ? SUM(result[i]) : factors[0] * g;
    for (uint v = 0u; v < vectors; ++v) {
      SUM factor = factors[first_factor + v];
      if (factor != SUM(0)) sum += factor * SUM(history[v * stride + i]);
    }
    REAL combined = REAL(sum);
    result[i] = combined;
    add(slope, SUM(combined) * g);
    add(squared, SUM(combined) * SUM(combined));
  }
  store_sum(0, slope, partials);
  store_sum(1, squared, partials);
}

//// history_dots
void main() {
  begin_sum(with_step);
  begin_sum(with_change);
  begin_sum(with_gradient);
  uint start = gl_WorkGroupID.x / groups * stride;
  uint begin = gl_WorkGroupID.x % groups * GROUP + gl_LocalInvocationIndex;
  for (uint i = begin; i < count; i += groups * GROUP) {
    SUM v = SUM(history[start + i]);
    add(with_step, v * SUM(delta[i]));
    add(with_change, v * SUM(change[i]));
    add(with_gradient, v * SUM(gradient[i]));
  }
  store_sum(0, with_step, partials);
  store_sum(1, with_change, partials);
  store_sum(2, with_gradient, partials);
}

//// momentum
void main() {
  REAL rate = REAL(scalars[rule + 0u]);
  REAL momentum = REAL(scalars[rule + 1u]);
  begin_sum(squared);
  GRID(i, count) {
    uint k = first + i;
    REAL x = point[k];
    REAL g = gradient[k];
    precise REAL mean = momentum * means[k] + g;
    means[k] = mean;
    precise REAL moved = -rate * mean;
    result[k] = x + moved;
    add(squared, SUM(moved) * SUM(moved));
  }
  store_sum(0, squared, partials);
}
