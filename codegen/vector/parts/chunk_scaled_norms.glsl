void main() {
  #include begin_scaled_norms
  CHUNK(k) {
    SUM h = SUM(diagonal[k]);
    #include scaled_norms_scalar
  }
  #include store_scaled_norms
}
