// sum = entry (a, b) of block m of JᵀJ: Σ over what two blocks share of J_rowsᵀ J_columns, by
// groups of slots; column_numbers names columns by group and coordinate.

uint area = block_rows * block_columns;
uint m = first + i / area;
uint a = i % area / block_columns;
uint b = i % block_columns;
uint end = starts[m + 1u];
precise SUM sum = SUM(0);
for (uint e = starts[m]; e < end; ++e) {
  uint instance = entries[2u * e];
  uint groups = entries[2u * e + 1u];
  uint u = column_numbers[(groups & 0xffffu) * 16u + a];
  uint v = column_numbers[(groups >> 16u) * 16u + b];
  if (u == 0xffffffffu || v == 0xffffffffu) continue;
  for (uint row = 0u; row < residuals; ++row) {
    REAL left = jacobian[(row * columns + u) * instances + instance];
    REAL right = jacobian[(row * columns + v) * instances + instance];
    sum += SUM(left) * SUM(right);
  }
}
