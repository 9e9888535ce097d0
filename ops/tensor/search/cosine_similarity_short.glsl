// Cosines of rows by one invocation for each row of targets.

{T} scale_for({T} squares) {
  if (squares > {large}) return {down};
  return squares < {small} ? {large} : {T}(1.0);
}

void main() {
  uint at_query = gl_WorkGroupID.y * depth, stride = gl_NumWorkGroups.x * 256u;
  for (uint row = gl_WorkGroupID.x * 256u + gl_LocalInvocationID.x; row < rows; row += stride) {
    {T} query_scale = {T}(1.0), target_scale = {T}(1.0), similarity = {T}(0.0);
    for (uint attempt = 0u; attempt < 2u; ++attempt) {
      {T} dot_product = {T}(0.0), squares = {T}(0.0), query_squares = {T}(0.0);
      for (uint i = 0u; i < depth; ++i) {
        {T} q = query_scale * query(at_query + i);
        {T} t = target_scale * targets(row * depth + i);
        dot_product = fma(q, t, dot_product);
        squares = fma(t, t, squares);
        query_squares = fma(q, q, query_squares);
      }
      {T} scale = sqrt(squares) * sqrt(query_squares);
      similarity = scale == {T}(0.0) ? {T}(0.0) : dot_product / scale;
      query_scale = scale_for(query_squares);
      target_scale = scale_for(squares);
      if (query_scale == {T}(1.0) && target_scale == {T}(1.0)) break;
    }
    result(gl_WorkGroupID.y * rows + row) = similarity;
  }
}
