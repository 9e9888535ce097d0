void main() {
  begin_sum(sum);
  uint end = starts[gl_WorkGroupID.x + 1u];
  for (uint e = starts[gl_WorkGroupID.x] + gl_LocalInvocationIndex; e < end; e += GROUP) {
    add(sum, SUM(numbers[entries[e]]));
  }
  store_sum(0, sum, partials);
}
