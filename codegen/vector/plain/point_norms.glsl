void main() {
  #include begin_norms
  GRID(i, count) {
    uint k = first + i;
    #include point_norms_scalar
  }
  #include store_norms
}
