// Sums come together in the first invocation of each row.
row_sums[gl_LocalInvocationIndex] = sum;
barrier();
for (uint other = WIDTH / 2u; other > 0u; other >>= 1u) {
  if (lane < other) row_sums[gl_LocalInvocationIndex] += row_sums[gl_LocalInvocationIndex + other];
  barrier();
}
