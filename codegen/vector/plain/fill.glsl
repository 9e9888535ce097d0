void main() {
  GRID(i, count) {
    uint k = first + i;
    result[k] = REAL(scalars[value]);
  }
}
