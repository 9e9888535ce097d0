// Squared distances by one invocation for each target. target_of() is `count` for no target.

{is_nan}
uint target_of(uint candidate) {
  {T} place = candidates(candidate);
  return place >= {T}(0.0) && place < {T}(count) ? uint(place) : count;
}

void main() {
  uint query = gl_WorkGroupID.y, stride = gl_NumWorkGroups.x * 256u;
  for (uint row = gl_WorkGroupID.x * 256u + gl_LocalInvocationID.x; row < rows; row += stride) {
    uint target = listed != 0u ? target_of(query * rows + row) : row;
    {T} sum = {T}(0.0);
    if (target < count) {
      for (uint i = 0u; i < depth; ++i) {
        {T} apart = queries(query * depth + i) - targets(target * depth + i);
        sum = fma(apart, apart, sum);
      }
    }
    result(query * rows + row) = target == count || is_nan(sum) ? {infinity} : sum;
  }
}
