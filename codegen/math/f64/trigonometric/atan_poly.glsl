// (atan(t) - t) / t^3 as a function of z = t^2, |t| <= 0.2372.
// Minimax polynomial (Remez).
double tg_atan_poly_f64(double z) {
  precise double p = 0.04721274883422501lf;
  p = p * z - 0.06550860253906522lf;
  p = p * z + 0.07685962426504378lf;
  p = p * z - 0.09090705782546327lf;
  p = p * z + 0.11111107302940543lf;
  p = p * z - 0.14285714246232442lf;
  p = p * z + 0.1999999999980246lf;
  p = p * z - 0.33333333333333lf;
  return p;
}
