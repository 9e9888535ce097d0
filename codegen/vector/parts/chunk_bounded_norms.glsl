void main() {
  #include begin_norms
  CHUNK(k) {
    #include bounded_norms_scalar
  }
  #include store_norms
}
