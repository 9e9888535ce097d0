void main() {
  uint from = first + gl_WorkGroupID.x * stride;
  begin_sum(total_sum);
  for (uint k = gl_LocalInvocationIndex; k < count; k += GROUP) {
    add_number(total_sum, partials[from + k]);
  }
  SUM total = workgroup_sum(total_sum);
  if (gl_LocalInvocationIndex == 0u) scalars[place + gl_WorkGroupID.x] = total;
}
