// Gauss–Jordan elimination in place, panel by panel, from one matrix to another: coarse_panel has
// made the rows of this one. Its columns count as 0 before.
// Source: Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., section 14.4.
void main() {
  uint n = unknowns;
  GRID(i, count) {
    uint row = i / n;
    uint column = i - row * n;
    precise SUM value = SUM(0);
    if (row - first < pivots) {
      value = panel[(row - first) * n + column];
    } else {
      if (column - first >= pivots) value = matrix[i];
      uint left = row * n + first;
      for (uint b = 0u; b < pivots; ++b) {
        value = value - matrix[left + b] * panel[b * n + column];
      }
    }
    result[i] = value;
  }
}
