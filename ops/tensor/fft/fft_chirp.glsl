// Products with the chirp of Bluestein's algorithm.

{V} times({V} a, {V} b) { return {V}(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x); }

void main() {
  uint stride = gl_NumWorkGroups.x * 256u;
  for (uint i = gl_GlobalInvocationID.x; i < count; i += stride) {
    uint row = i / row_length, k = i % row_length;
    {V} z = {V}(0.0);
    if (k < valid) {
      z = source(row * source_length + k);
      if (swap_in != 0u) z = z.yx;
      z = times(z, chirp(k)) * {F};
    }
    target(i) = swap_out != 0u ? z.yx : z;
  }
}
