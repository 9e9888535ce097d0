// Transforms of even numbers of real numbers from complex transforms of half the length.

{V} times({V} a, {V} b) { return {V}(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x); }

void main() {
  uint stride = gl_NumWorkGroups.x * 256u, pairs = row_length / 2u + 1u;
  for (uint i = gl_GlobalInvocationID.x; i < count; i += stride) {
    uint row = i / pairs, k = i % pairs, from = row * row_length;
    {V} z = source(from + k), other = source(from + (k == 0u ? 0u : row_length - k));
    {V} w = times(roots(8u + (k & 1023u)), roots(1032u + (k >> 10u)));
    {V} even = {T}(0.5) * {V}(z.x + other.x, z.y - other.y);
    {V} odd = times(w, {T}(0.5) * {V}(z.y + other.y, other.x - z.x));
    target(from + row + k) = even + odd;
    target(from + row + row_length - k) = {V}(even.x - odd.x, odd.y - even.y);
  }
}
