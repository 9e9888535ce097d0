void main() {
  begin_sum(g_squared);
  begin_sum(x_squared);
  begin_sum(step_squared);
  SUM greatest = SUM(0);
  uint end = ends[2u * gl_WorkGroupID.x + 1u];
  for (uint k = ends[2u * gl_WorkGroupID.x] + gl_LocalInvocationIndex; k < end; k += GROUP) {
    SUM h = SUM(diagonal[k]);
    if (h == SUM(0) || (masked != 0u && fixed_scalars[k] != 0u)) continue;
    SUM g = SUM(gradient[k]);
    SUM x = SUM(point[k]);
    SUM d = SUM(delta[k]);
    precise SUM scaled = g / sqrt(h);
    add(g_squared, scaled * scaled);
    add(x_squared, h * x * x);
    add(step_squared, h * d * d);
    greatest = maximum(greatest, abs(scaled));
  }
  store_sum(0, g_squared, partials);
  store_sum(1, x_squared, partials);
  store_sum(2, step_squared, partials);
  store_maximum(3, greatest, partials);
}
