// Comparisons are written so that a NaN stays one.
void main() {
  begin_sum(g_squared);
  begin_sum(x_squared);
  SUM greatest = SUM(0);
  GRID(i, count) {
    uint k = first + i;
    #include bounded_norms_scalar
  }
  store_sum(0, g_squared, partials);
  store_sum(1, x_squared, partials);
  store_maximum(2, greatest, partials);
}
