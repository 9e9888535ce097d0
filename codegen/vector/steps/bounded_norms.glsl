// Comparisons are written so that a NaN stays one.
void main() {
  #include begin_norms
  GRID(i, count) {
    uint k = first + i;
    #include bounded_norms_scalar
  }
  #include store_norms
}
