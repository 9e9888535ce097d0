void main() {
  begin_sum(g_squared);
  begin_sum(x_squared);
  SUM greatest = SUM(0);
  uint end = ends[2u * gl_WorkGroupID.x + 1u];
  for (uint k = ends[2u * gl_WorkGroupID.x] + gl_LocalInvocationIndex; k < end; k += GROUP) {
    if (masked != 0u && fixed_scalars[k] != 0u) {
      gradient[k] = REAL(0);
      continue;
    }
    SUM g = SUM(gradient[k]);
    SUM x = SUM(point[k]);
    add(g_squared, g * g);
    add(x_squared, x * x);
    greatest = maximum(greatest, abs(g));
  }
  store_sum(0, g_squared, partials);
  store_sum(1, x_squared, partials);
  store_maximum(2, greatest, partials);
}
