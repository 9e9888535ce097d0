// L z = y for the pivots of a step, in every workgroup of its own, and y −= L z in further rows.
// Panels have L S, so that S z is found here.

shared REAL lower[528];
shared REAL part[32];

void main() {
  for (uint w = gl_WorkGroupID.x; w < count; w += gl_NumWorkGroups.x) {
    #include front_item
    uint block = c0;
    uint width = min(32u, pivots - block);
    uint right = fronts[word + 4u];
    #include front_diagonal
    for (uint i = gl_LocalInvocationIndex; i < width; i += GROUP) part[i] = vectors[right + block + i];
    barrier();
    for (uint p = 0u; p + 1u < width; ++p) {
      precise REAL z = part[p] * lower[p * (p + 1u) / 2u + p];
      for (uint i = p + 1u + gl_LocalInvocationIndex; i < width; i += GROUP) {
        part[i] = fma(-lower[i * (i + 1u) / 2u + p], z, part[i]);
      }
      barrier();
    }
    for (uint i = gl_LocalInvocationIndex; i < width; i += GROUP) {
      bool negated = lower[i * (i + 1u) / 2u + i] < REAL(0);
      precise REAL z = part[i] * lower[i * (i + 1u) / 2u + i];
      lower[i * (i + 1u) / 2u + i] = z;
      if (r0 == c0) solved[fronts[word + 5u] + block + i] = negated ? -z : z;
    }
    barrier();
    uint end = min(r0 + 32u, rows);
    for (uint r = max(r0, c0 + width) + gl_LocalInvocationIndex; r < end; r += GROUP) {
      REAL value = vectors[right + r];
      for (uint q = 0u; q < width; ++q) {
        value = fma(-panels[panel + r * pivots + block + q], lower[q * (q + 1u) / 2u + q], value);
      }
      vectors[right + r] = value;
    }
    barrier();
  }
}
