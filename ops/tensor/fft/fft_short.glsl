// Transforms of few numbers by their definition.

{V} times({V} a, {V} b) { return {V}(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x); }

void main() {
  uint stride = gl_NumWorkGroups.x * 256u;
  for (uint i = gl_GlobalInvocationID.x; i < count; i += stride) {
    uint k = i % row_length, row = i - k;
    {V} sum = {V}(0.0);
    for (uint j = 0u; j < row_length; ++j) {
      {V} z = source(row + j);
      if (swapped != 0u) z = z.yx;
      sum += times(z, roots(j * k % row_length));
    }
    sum *= {F};
    target(i) = swapped != 0u ? sum.yx : sum;
  }
}
