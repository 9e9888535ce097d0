// The end of the solver, from the pivots.
void main() {
  begin_sum(failed);
  begin_sum(dropped);
  for (uint i = gl_LocalInvocationIndex; i < count; i += GROUP) {
    add(failed, (status[i] & 0xffu) != 0u ? SUM(1) : SUM(0));
    add(dropped, SUM((status[i] >> 8u) & 0xffu));
  }
  SUM total = workgroup_sum(failed);
  SUM sum = workgroup_sum(dropped);
  if (gl_LocalInvocationIndex != 0u) return;
  scalars[STATE] = total == SUM(0) ? CONVERGED : BREAKDOWN;
  scalars[ITERATIONS] = SUM(0);
  scalars[VANISHED] = sum;
}
