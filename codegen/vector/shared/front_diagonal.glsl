// Loads the factor of the pivots' block from column `block` on: below its diagonal, packed by rows,
// and the reciprocals of the diagonal. It lies above the diagonal of the panel, and behind it.
for (uint t = gl_LocalInvocationIndex; t < 1024u; t += GROUP) {
  uint j = t / 32u;
  uint i = t % 32u;
  if (j < i && i < width) lower[i * (i + 1u) / 2u + j] = panels[panel + (block + j) * pivots + block + i];
  if (j == i && i < width) lower[i * (i + 1u) / 2u + i] = panels[panel + rows * pivots + block + i];
}
