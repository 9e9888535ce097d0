void main() {
  begin_direction();
  GRID(i, count) {
    uint k = first + i;
    precise REAL p = preconditioned[k] + REAL(beta) * direction[k];
    direction[k] = p;
  }
}
