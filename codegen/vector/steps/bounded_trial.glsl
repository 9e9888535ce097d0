// The model is that of the whole step, as in trial_point.
void main() {
  REAL fraction = REAL(scalars[length]);
  begin_sum(decrease);
  begin_sum(squared);
  begin_sum(slope);
  GRID(i, count) {
    uint k = first + i;
    REAL x = point[k];
    precise REAL trial = x + fraction * delta[k];
    if (trial < lower_bounds[k]) trial = lower_bounds[k];
    if (trial > upper_bounds[k]) trial = upper_bounds[k];
    result[k] = trial;
    SUM d = SUM(delta[k]);
    precise SUM moved = SUM(trial) - SUM(x);
    add(decrease, SUM(0.5) * d * ((SUM(residual[k]) + SUM(damping[k]) * d) - SUM(gradient[k])));
    add(squared, moved * moved);
    add(slope, SUM(gradient[k]) * d);
  }
  store_sum(0, decrease, partials);
  store_sum(1, squared, partials);
  store_sum(2, slope, partials);
}
