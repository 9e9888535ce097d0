// Every entry of the matrix has a place of its own in the panels.
void main() {
  GRID(i, count) {
    uint e = 4u * (first + i);
    uint row = entries[e + 2u];
    uint column = entries[e + 3u];
    precise SUM value = SUM(matrix[entries[e]]);
    if (row == column) value = value + SUM(damping[row]);
    if (masked != 0u && (fixed_scalars[row] != 0u || fixed_scalars[column] != 0u)) {
      value = row == column ? SUM(1) : SUM(0);
    }
    panels[entries[e + 1u]] = REAL(value);
    if (row == column) {
      precise SUM limit = scalars[VANISHING] * abs(value);
      limits[row] = REAL(limit);
    }
  }
}
