// Blocks of S = B + Λ − its pieces, both triangles; diagonal ones packed as well.

#include packed

void main() {
  GRID(i, count) {
    uint area = block_rows * block_columns;
    uint m = first + i / area;
    uint a = i % area / block_columns;
    uint b = i % block_columns;
    uint word = 7u * m;
    uint meeting = outputs[word];
    uint scalar = outputs[word + 5u];
    bool diagonal = scalar != 0xffffffffu;
    if (diagonal && b < a) continue;
    precise SUM sum = SUM(0);
    if (diagonal) {
      sum = SUM(blocks[diagonals[scalar] + packed(block_columns, a, b)]);
      if (a == b) sum = sum + SUM(damping[scalar + a]);
    } else if (meeting != 0xffffffffu) {
      sum = SUM(meetings[meeting + i % area]);
    }
    if (masked != 0u && diagonal && (fixed_scalars[scalar + a] != 0u || fixed_scalars[scalar + b] != 0u)) {
      sum = a == b ? SUM(1) : SUM(0);
    }
    uint end = starts[m + 1u];
    for (uint e = starts[m]; e < end; ++e) sum -= SUM(pieces[entries[e] + i % area]);
    REAL value = REAL(sum);
    complement[outputs[word + 1u] + a * outputs[word + 2u] + b] = value;
    complement[outputs[word + 3u] + b * outputs[word + 4u] + a] = value;
    if (diagonal) packed_blocks[outputs[word + 6u] + packed(block_columns, a, b)] = value;
  }
}
