void main() {
  begin_sum(sum);
  GRID(i, count) {
    uint k = first + i;
    if (masked != 0u && fixed_scalars[k] != 0u) continue;
    add(sum, SUM(x[k]) * SUM(y[k]));
  }
  store_sum(0, sum, partials);
}
