// (cos(r) - 1 + z / 2) / z^2 as a function of z = r^2, |r| <= pi/4.
// Minimax polynomial (Remez).
double tg_cos_poly_f64(double z) {
  precise double p = -1.1359765981060764e-11lf;
  p = p * z + 2.0875725710137468e-9lf;
  p = p * z - 2.7557314371722e-7lf;
  p = p * z + 2.480158728955604e-5lf;
  p = p * z - 0.0013888888888874257lf;
  p = p * z + 0.0416666666666666lf;
  return p;
}
