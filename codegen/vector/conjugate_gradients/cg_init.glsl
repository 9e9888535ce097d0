void main() {
  begin_sum(rz);
  begin_sum(rr);
  GRID(b, count) {
    uint k = first + b * WIDTH;
    #each precise REAL r_$ = -gradient[k + $u];
    #include solve_block
    #each delta[k + $u] = REAL(0);
    #each direction[k + $u] = REAL(0);
    #include store_block
  }
  store_sum(0, rz, partials);
  store_sum(1, rr, partials);
}
