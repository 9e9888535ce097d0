// E C⁻¹ of meetings, an invocation an entry.

#include packed

void main() {
  GRID(i, count) {
    uint area = block_rows * block_columns;
    uint m = first + i / area;
    uint a = i % area / block_columns;
    uint t = i % block_columns;
    uint row = entries[2u * m] + a * block_columns;
    uint block = inverse_first + entries[2u * m + 1u];
    precise SUM sum = SUM(0);
    for (uint s = 0u; s < block_columns; ++s) {
      uint at = block + packed(block_columns, s, t) * inverses;
      sum += SUM(meetings[row + s]) * SUM(inverse_blocks[at]);
    }
    couplings[row + t] = REAL(sum);
  }
}
