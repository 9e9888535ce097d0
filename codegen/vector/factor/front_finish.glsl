// The end of the solver, from the pivots.
void main() {
  begin_sum(failed);
  for (uint i = gl_LocalInvocationIndex; i < count; i += GROUP) {
    add(failed, status[i] != 0u ? SUM(1) : SUM(0));
  }
  SUM total = workgroup_sum(failed);
  if (gl_LocalInvocationIndex != 0u) return;
  scalars[STATE] = total == SUM(0) ? CONVERGED : BREAKDOWN;
  scalars[ITERATIONS] = SUM(0);
}
