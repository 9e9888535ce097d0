//// axpby
void main() {
  REAL a = REAL(scalars[x_factor]);
  REAL b = REAL(scalars[y_factor]);
  GRID(i, count) {
    uint k = first + i;
    precise REAL value = REAL(0);
    if (x_factor != ZERO) value = a * x[k];
    if (y_factor != ZERO) value = value + b * y[k];
    y[k] = value;
  }
}

//// combine
void main() {
  REAL a = REAL(scalars[x_factor]);
  REAL b = REAL(scalars[y_factor]);
  GRID(i, count) {
    uint k = first + i;
    precise REAL value = REAL(0);
    if (x_factor != ZERO) value = a * x[k];
    if (y_factor != ZERO) value = value + b * y[k];
    result[k] = value;
  }
}

//// copy
void main() {
  GRID(i, count) {
    uint k = first + i;
    result[k] = source[k];
  }
}

//// dot
void main() {
  begin_sum(sum);
  GRID(i, count) {
    uint k = first + i;
    if (masked != 0u && fixed_scalars[k] != 0u) continue;
    add(sum, SUM(x[k]) * SUM(y[k]));
  }
  store_sum(0, sum, partials);
}

//// fill
void main() {
  GRID(i, count) {
    uint k = first + i;
    result[k] = REAL(scalars[value]);
  }
}

//// mask
void main() {
  GRID(i, count) {
    uint k = first + i;
    if (fixed_scalars[k] != 0u) result[k] = REAL(0);
  }
}

//// max_abs
void main() {
  SUM greatest = SUM(0);
  GRID(i, count) {
    uint k = first + i;
    if (masked != 0u && fixed_scalars[k] != 0u) continue;
    greatest = maximum(greatest, SUM(abs(x[k])));
  }
  store_maximum(0, greatest, partials);
}

//// max_partials
void main() {
  uint from = first + gl_WorkGroupID.x * stride;
  SUM greatest = partials[from];
  for (uint k = gl_LocalInvocationIndex; k < count; k += GROUP) {
    greatest = maximum(greatest, partials[from + k]);
  }
  SUM total = workgroup_max(greatest);
  if (gl_LocalInvocationIndex == 0u) scalars[place + gl_WorkGroupID.x] = total;
}

//// narrow
void main() {
  GRID(i, count) {
    uint k = first + i;
    result[k] = REAL(source[k]);
  }
}

//// point_norms
void main() {
  #include begin_norms
  GRID(i, count) {
    uint k = first + i;
    #include point_norms_scalar
  }
  #include store_norms
}

//// segment_sum
// One invocation a number of a row, so that neighbours read neighbours.
void main() {
  GRID(i, count * WIDTH) {
    uint w = i / WIDTH;
    uint k = i % WIDTH;
    uint end = starts[w + 1u];
    precise REAL sum = REAL(0);
    for (uint e = starts[w]; e < end; ++e) sum += rows[e * WIDTH + k];
    uint o = first + outputs[w] * WIDTH + k;
    if (overwrite == 0u) sum = result[o] + sum;
    result[o] = sum;
  }
}

//// sum_partials
void main() {
  uint from = first + gl_WorkGroupID.x * stride;
  total(sum, partials, from, count);
  if (gl_LocalInvocationIndex == 0u) scalars[place + gl_WorkGroupID.x] = sum;
}

//// trial_point
// With r = −g − (JᵀJ + Λ) δ the linear model decreases by ½ δ·(r + Λδ − g).
void main() {
  begin_sum(decrease);
  begin_sum(squared);
  begin_sum(slope);
  GRID(i, count) {
    uint k = first + i;
    precise REAL trial = point[k] + delta[k];
    result[k] = trial;
    SUM d = SUM(delta[k]);
    add(decrease, SUM(0.5) * d * ((SUM(residual[k]) + SUM(damping[k]) * d) - SUM(gradient[k])));
    add(squared, d * d);
    add(slope, SUM(gradient[k]) * d);
  }
  store_sum(0, decrease, partials);
  store_sum(1, squared, partials);
  store_sum(2, slope, partials);
}

//// widen
void main() {
  GRID(i, count) {
    uint k = first + i;
    result[k] = SUM(source[k]);
  }
}
