// (2 atanh(s) / s - 2) / z as a function of z = s^2, |s| <= (sqrt(2) - 1) / (sqrt(2) + 1).
// Minimax polynomial (Remez).
double tg_log_poly_f64(double z) {
  precise double p = 0.14791947701136351lf;
  p = p * z + 0.15314478999143558lf;
  p = p * z + 0.18183546175326432lf;
  p = p * z + 0.2222219895791053lf;
  p = p * z + 0.2857142873815897lf;
  p = p * z + 0.39999999999436936lf;
  p = p * z + 0.6666666666666731lf;
  return p;
}
