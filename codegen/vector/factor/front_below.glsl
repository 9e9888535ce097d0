// z −= S Lᵀ x of the rows below the pivots, for 32 pivots.

shared REAL parts[GROUP];

void main() {
  for (uint w = gl_WorkGroupID.x; w < count; w += gl_NumWorkGroups.x) {
    #include front_item
    uint c = c0 + gl_LocalInvocationIndex % 32u;
    uint list = fronts[word + 8u];
    REAL sum = REAL(0);
    if (c < pivots) {
      for (uint r = gl_LocalInvocationIndex / 32u; r < rows - pivots; r += GROUP / 32u) {
        sum = fma(panels[panel + (pivots + r) * pivots + c], solution[row_scalars[list + r]], sum);
      }
    }
    parts[gl_LocalInvocationIndex] = sum;
    barrier();
    if (gl_LocalInvocationIndex < 32u && c < pivots) {
      precise REAL value = solved[fronts[word + 5u] + c];
      for (uint k = 0u; k < GROUP / 32u; ++k) value = value - parts[32u * k + gl_LocalInvocationIndex];
      solved[fronts[word + 5u] + c] = value;
    }
    barrier();
  }
}
