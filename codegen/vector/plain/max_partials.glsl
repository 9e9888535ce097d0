void main() {
  uint from = first + gl_WorkGroupID.x * stride;
  SUM greatest = partials[from];
  for (uint k = gl_LocalInvocationIndex; k < count; k += GROUP) {
    greatest = maximum(greatest, partials[from + k]);
  }
  SUM total = workgroup_max(greatest);
  if (gl_LocalInvocationIndex == 0u) scalars[place + gl_WorkGroupID.x] = total;
}
