// Sums of products (E C⁻¹) Eᵀ, an invocation an entry of a piece; `inner` columns inside.
void main() {
  GRID(i, count) {
    uint area = block_rows * block_columns;
    uint piece = first + i / area;
    uint a = i % area / block_columns;
    uint b = i % block_columns;
    uint end = starts[piece + 1u];
    precise SUM sum = SUM(0);
    for (uint e = starts[piece]; e < end; ++e) {
      uint left = entries[2u * e] + a * inner;
      uint right = entries[2u * e + 1u] + b * inner;
      for (uint t = 0u; t < inner; ++t) {
        sum += SUM(couplings[left + t]) * SUM(meetings[right + t]);
      }
    }
    pieces[outputs[piece] + i % area] = REAL(sum);
  }
}
