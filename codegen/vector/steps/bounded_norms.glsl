// Comparisons are written so that a NaN stays one.
void main() {
  begin_sum(g_squared);
  begin_sum(x_squared);
  SUM greatest = SUM(0);
  GRID(i, count) {
    uint k = first + i;
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
    held_scalars[k] = stays ? 1u : 0u;
    if (stays) gradient[k] = REAL(0);
    SUM v = SUM(projected);
    add(g_squared, v * v);
    add(x_squared, SUM(x) * SUM(x));
    greatest = maximum(greatest, abs(v));
  }
  store_sum(0, g_squared, partials);
  store_sum(1, x_squared, partials);
  store_maximum(2, greatest, partials);
}
