// Rows of a panel of pivots from `first` on, their own block B taken out: B⁻¹ A of these rows, and
// B⁻¹ itself at the columns of the panel. B is inverted by every workgroup for itself, pivot by
// pivot; a pivot that is not positive leaves its row and column out.

shared SUM panel_block[2u * WIDTH * WIDTH];

void main() {
  uint n = unknowns;
  uint size = pivots * pivots;
  for (uint k = gl_LocalInvocationIndex; k < size; k += GROUP) {
    uint row = k / pivots;
    panel_block[k] = matrix[(first + row) * n + first + (k - row * pivots)];
  }
  uint from = 0u;
  for (uint p = 0u; p < pivots; ++p) {
    barrier();
    uint to = WIDTH * WIDTH - from;
    SUM pivot = panel_block[from + p * pivots + p];
    precise SUM inverse_pivot = pivot > SUM(0) ? SUM(1) / pivot : SUM(0);
    for (uint k = gl_LocalInvocationIndex; k < size; k += GROUP) {
      uint row = k / pivots;
      uint column = k - row * pivots;
      SUM left = panel_block[from + row * pivots + p];
      SUM above = panel_block[from + p * pivots + column];
      precise SUM value = panel_block[from + k] - left * (inverse_pivot * above);
      if (row == p && column == p) {
        value = inverse_pivot;
      } else if (row == p) {
        value = inverse_pivot * above;
      } else if (column == p) {
        value = -left * inverse_pivot;
      }
      panel_block[to + k] = value;
    }
    from = to;
  }
  barrier();
  GRID(j, count) {
    bool inside = j - first < pivots;
    for (uint b = 0u; b < pivots; ++b) {
      uint row = from + b * pivots;
      precise SUM value = SUM(0);
      if (inside) {
        value = panel_block[row + j - first];
      } else {
        for (uint c = 0u; c < pivots; ++c) {
          value = value + panel_block[row + c] * matrix[(first + c) * n + j];
        }
      }
      panel[b * n + j] = value;
    }
  }
}
