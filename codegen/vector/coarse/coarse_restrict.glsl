void main() {
  #include stop_with_solver
  #each begin_sum(sum_$);
  uint g = gl_WorkGroupID.x;
  uint end = starts[g + 1u];
  for (uint e = starts[g] + gl_LocalInvocationIndex; e < end; e += GROUP) {
    REAL value = residual[entries[e]];
    #each add(sum_$, SUM(vectors[$u * count + e]) * SUM(value));
  }
  #each SUM total_$ = workgroup_sum(sum_$);
  if (gl_LocalInvocationIndex == 0u) {
    #each coarse_residual[g * WIDTH + $u] = total_$;
  }
}
