// (sin(r) - r) / r^3 as a function of z = r^2, |r| <= pi/4.
// Minimax polynomial (Remez).
double tg_sin_poly_f64(double z) {
  precise double p = -7.578770323747694e-13lf;
  p = p * z + 1.605836808539874e-10lf;
  p = p * z - 2.505210492303975e-8lf;
  p = p * z + 2.755731921423466e-6lf;
  p = p * z - 0.00019841269841255153lf;
  p = p * z + 0.008333333333333323lf;
  p = p * z - 0.16666666666666666lf;
  return p;
}
