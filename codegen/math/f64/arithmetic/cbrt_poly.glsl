// Cube root of 1/2 <= z <= 3/2, roughly.
// Minimax polynomial (Remez).
double tg_cbrt_poly_f64(double z) {
  precise double p = -0.010450347214725708lf;
  p = p * z + 0.0851740830190736lf;
  p = p * z - 0.2985951991997004lf;
  p = p * z + 0.7162227189331752lf;
  p = p * z + 0.507659022286262lf;
  return p;
}
