// Lᵀ x = S z for the pivots of a step, in every workgroup of its own, and z −= S Lᵀ x for those before.

shared REAL lower[528];
shared REAL part[32];

void main() {
  for (uint w = gl_WorkGroupID.x; w < count; w += gl_NumWorkGroups.x) {
    #include front_item
    uint block = r0;
    uint width = min(32u, pivots - block);
    uint place = fronts[word + 5u];
    #include front_diagonal
    for (uint i = gl_LocalInvocationIndex; i < width; i += GROUP) part[i] = solved[place + block + i];
    barrier();
    for (uint p = width - 1u; p > 0u; --p) {
      precise REAL x = part[p] * lower[p * (p + 1u) / 2u + p];
      for (uint i = gl_LocalInvocationIndex; i < p; i += GROUP) {
        part[i] = fma(-lower[p * (p + 1u) / 2u + i], x, part[i]);
      }
      barrier();
    }
    for (uint i = gl_LocalInvocationIndex; i < width; i += GROUP) {
      precise REAL x = part[i] * lower[i * (i + 1u) / 2u + i];
      lower[i * (i + 1u) / 2u + i] = x;
      if (r0 == c0) solution[pivot_scalars[place + block + i]] = x;
    }
    barrier();
    for (uint c = c0 + gl_LocalInvocationIndex; c < c0 + 32u && r0 != c0; c += GROUP) {
      REAL value = solved[place + c];
      for (uint i = 0u; i < width; ++i) {
        value = fma(-panels[panel + (block + i) * pivots + c], lower[i * (i + 1u) / 2u + i], value);
      }
      solved[place + c] = value;
    }
    barrier();
  }
}
