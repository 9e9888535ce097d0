// Cosines of rows by 32 invocations for each row of targets. If a sum of squares of the group is too small or
// too large, the group repeats it with scaling.

shared {T} products[256], lengths[256], query_lengths[256];
shared uint again;
{T} scale_for({T} squares) {
  if (squares > {large}) return {down};
  return squares < {small} ? {large} : {T}(1.0);
}

void main() {
  uint self = gl_LocalInvocationID.x, lane = self & 31u, slot = self >> 5u;
  uint at_query = gl_WorkGroupID.y * depth;
  for (uint first = gl_WorkGroupID.x * 8u; first < rows; first += gl_NumWorkGroups.x * 8u) {
    uint row = first + slot;
    {T} query_scale = {T}(1.0), target_scale = {T}(1.0);
    for (uint attempt = 0u; attempt < 2u; ++attempt) {
      {T} dot_product = {T}(0.0), squares = {T}(0.0), query_squares = {T}(0.0);
      if (row < rows) {
        for (uint i = lane; i < depth; i += 32u) {
          {T} q = query_scale * query(at_query + i);
          {T} t = target_scale * targets(row * depth + i);
          dot_product = fma(q, t, dot_product);
          squares = fma(t, t, squares);
          query_squares = fma(q, q, query_squares);
        }
      }
      barrier();
      if (self == 0u) again = 0u;
      products[self] = dot_product;
      lengths[self] = squares;
      query_lengths[self] = query_squares;
      for (uint width = 16u; width > 0u; width >>= 1u) {
        barrier();
        if (lane < width) {
          products[self] += products[self + width];
          lengths[self] += lengths[self + width];
          query_lengths[self] += query_lengths[self + width];
        }
      }
      barrier();
      query_scale = scale_for(query_lengths[slot * 32u]);
      target_scale = scale_for(lengths[slot * 32u]);
      if (lane == 0u && row < rows) {
        {T} scale = sqrt(lengths[self]) * sqrt(query_lengths[self]);
        result(gl_WorkGroupID.y * rows + row) =
            scale == {T}(0.0) ? {T}(0.0) : products[self] / scale;
        if (query_scale != {T}(1.0) || target_scale != {T}(1.0)) again = 1u;
      }
      barrier();
      if (again == 0u) break;
    }
  }
}
