void main() {
  uint norm = scalars[IN_ENERGY] != SUM(0) ? sums_first : sums_first + sums_stride;
  begin_sum(before_sum);
  for (uint k = gl_LocalInvocationIndex; k < sums_count; k += GROUP) {
    add_number(before_sum, partials[norm + k]);
  }
  SUM before = workgroup_sum(before_sum);
  if (gl_LocalInvocationIndex != 0u) return;
  precise SUM threshold = scalars[TOLERANCE] * scalars[TOLERANCE] * before;
  scalars[THRESHOLD] = threshold;
  scalars[ITERATIONS] = SUM(0);
  scalars[GAINS] = SUM(0);
  scalars[NEXT_STATE] = SUM(0);
  scalars[PENDING] = SUM(0);
}
