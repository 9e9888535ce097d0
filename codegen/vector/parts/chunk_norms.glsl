void main() {
  #include begin_norms
  CHUNK(k) {
    #include point_norms_scalar
  }
  #include store_norms
}
