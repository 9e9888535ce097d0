// Adds to the tile what the children left in its rows and columns: one child after another, so that
// every entry is summed in one order.
for (uint child = fronts[word + 6u]; child < fronts[word + 7u]; ++child) {
  uint from = 10u * child;
  uint cut = fronts[from + 9u];
  uint i0 = cuts[cut + r0 / 32u];
  uint j0 = cuts[cut + c0 / 32u];
  uint wide = cuts[cut + c0 / 32u + 1u] - j0;
  uint size = (cuts[cut + r0 / 32u + 1u] - i0) * wide;
  if (size != 0u) {
    uint list = fronts[from + 8u];
    uint update = fronts[from + 3u] - children_first;
    for (uint t = gl_LocalInvocationIndex; t < size; t += GROUP) {
      uint i = i0 + t / wide;
      uint j = j0 + t % wide;
      if (j <= i) {
        uint at = (places[list + i] - r0) * 32u + places[list + j] - c0;
        precise REAL sum = tile[at] + updates[update + i * (i + 1u) / 2u + j];
        tile[at] = sum;
      }
    }
    barrier();
  }
}
