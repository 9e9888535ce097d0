// Squared distances by 32 invocations for each target. target_of() is `count` for no target.

shared {T} sums[256];
{is_nan}
uint target_of(uint candidate) {
  {T} place = candidates(candidate);
  return place >= {T}(0.0) && place < {T}(count) ? uint(place) : count;
}

void main() {
  uint self = gl_LocalInvocationID.x, lane = self & 31u, slot = self >> 5u;
  uint query = gl_WorkGroupID.y;
  for (uint first = gl_WorkGroupID.x * 8u; first < rows; first += gl_NumWorkGroups.x * 8u) {
    uint row = first + slot, target = count;
    if (row < rows) target = listed != 0u ? target_of(query * rows + row) : row;
    {T} sum = {T}(0.0);
    if (target < count) {
      for (uint i = lane; i < depth; i += 32u) {
        {T} apart = queries(query * depth + i) - targets(target * depth + i);
        sum = fma(apart, apart, sum);
      }
    }
    barrier();
    sums[self] = sum;
    for (uint width = 16u; width > 0u; width >>= 1u) {
      barrier();
      if (lane < width) sums[self] += sums[self + width];
    }
    if (lane == 0u && row < rows) {
      sum = sums[self];
      result(query * rows + row) = target == count || is_nan(sum) ? {infinity} : sum;
    }
  }
}
