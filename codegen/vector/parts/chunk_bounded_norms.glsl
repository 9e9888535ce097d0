void main() {
  begin_sum(g_squared);
  begin_sum(x_squared);
  SUM greatest = SUM(0);
  uint end = ends[2u * gl_WorkGroupID.x + 1u];
  for (uint k = ends[2u * gl_WorkGroupID.x] + gl_LocalInvocationIndex; k < end; k += GROUP) {
    #include bounded_norms_scalar
  }
  store_sum(0, g_squared, partials);
  store_sum(1, x_squared, partials);
  store_maximum(2, greatest, partials);
}
