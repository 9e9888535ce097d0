void main() {
  SUM greatest = SUM(0);
  GRID(i, count) {
    uint k = first + i;
    if (masked != 0u && fixed_scalars[k] != 0u) continue;
    greatest = maximum(greatest, SUM(abs(x[k])));
  }
  store_maximum(0, greatest, partials);
}
