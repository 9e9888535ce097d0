void main() {
  REAL rate = REAL(scalars[rule + 0u]);
  REAL momentum = REAL(scalars[rule + 1u]);
  begin_sum(squared);
  GRID(i, count) {
    uint k = first + i;
    REAL x = point[k];
    REAL g = gradient[k];
    precise REAL mean = momentum * means[k] + g;
    means[k] = mean;
    precise REAL moved = -rate * mean;
    result[k] = x + moved;
    add(squared, SUM(moved) * SUM(moved));
  }
  store_sum(0, squared, partials);
}
