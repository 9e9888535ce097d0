void main() {
  GRID(i, count) {
    delta[kept_scalars[i]] = kept_step[i];
    residual[kept_scalars[i]] = kept_residual[i];
  }
}
