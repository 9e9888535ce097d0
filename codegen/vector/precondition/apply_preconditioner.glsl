void main() {
  GRID(b, count) {
    uint k = first + b * WIDTH;
    #each REAL r_$ = vector[k + $u];
    apply_inverse();
    #each result[k + $u] = z_$;
  }
}
