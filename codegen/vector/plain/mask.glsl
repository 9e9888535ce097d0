void main() {
  GRID(i, count) {
    uint k = first + i;
    if (fixed_scalars[k] != 0u) result[k] = REAL(0);
  }
}
