// One invocation an entry of a meeting of two blocks.
void main() {
  GRID(i, count) {
    #include jacobian_products
    bool fixed_row = masked != 0u && fixed_scalars[outputs[3u * m + 1u] + a] != 0u;
    bool fixed_column = masked != 0u && fixed_scalars[outputs[3u * m + 2u] + b] != 0u;
    if (fixed_row || fixed_column) sum = SUM(0);
    uint o = outputs[3u * m] + i % area;
    if (overwrite == 0u) sum = SUM(meetings[o]) + sum;
    meetings[o] = REAL(sum);
  }
}
