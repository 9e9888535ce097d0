void main() {
  REAL rate = REAL(scalars[rule + 0u]);
  REAL beta1 = REAL(scalars[rule + 1u]);
  REAL beta2 = REAL(scalars[rule + 2u]);
  REAL mean_bias = REAL(scalars[rule + 3u]);
  REAL square_bias = REAL(scalars[rule + 4u]);
  REAL epsilon = REAL(scalars[rule + 5u]);
  REAL decay = REAL(scalars[rule + 6u]);
  begin_sum(squared);
  GRID(i, count) {
    uint k = first + i;
    REAL x = point[k];
    REAL g = gradient[k];
    precise REAL mean = beta1 * means[k] + (REAL(1) - beta1) * g;
    precise REAL square = beta2 * squares[k] + (REAL(1) - beta2) * g * g;
    means[k] = mean;
    squares[k] = square;
    precise REAL moved = -rate * (mean / mean_bias) / (sqrt(square / square_bias) + epsilon);
    if (decay != REAL(0) && square != REAL(0)) moved -= decay * x;
    result[k] = x + moved;
    add(squared, SUM(moved) * SUM(moved));
  }
  store_sum(0, squared, partials);
}
