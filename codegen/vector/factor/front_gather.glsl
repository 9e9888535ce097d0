// The right side of a front: that of its pivots, and what the children left.

shared REAL part[32];

void main() {
  for (uint w = gl_WorkGroupID.x; w < count; w += gl_NumWorkGroups.x) {
    #include front_item
    for (uint i = gl_LocalInvocationIndex; i < 32u; i += GROUP) {
      REAL value = REAL(0);
      if (r0 + i < pivots) {
        uint scalar = pivot_scalars[fronts[word + 5u] + r0 + i];
        if (masked == 0u || fixed_scalars[scalar] == 0u) value = right_side[scalar];
      }
      part[i] = negative != 0u ? -value : value;
    }
    barrier();
    for (uint child = fronts[word + 6u]; child < fronts[word + 7u]; ++child) {
      uint from = 10u * child;
      uint cut = fronts[from + 9u];
      uint list = fronts[from + 8u];
      uint source = fronts[from + 4u] + fronts[from + 1u];
      uint end = cuts[cut + r0 / 32u + 1u];
      for (uint i = cuts[cut + r0 / 32u] + gl_LocalInvocationIndex; i < end; i += GROUP) {
        uint at = places[list + i] - r0;
        precise REAL sum = part[at] + vectors[source + i];
        part[at] = sum;
      }
      barrier();
    }
    for (uint i = gl_LocalInvocationIndex; i < 32u; i += GROUP) {
      if (r0 + i < rows) vectors[fronts[word + 4u] + r0 + i] = part[i];
    }
    barrier();
  }
}
