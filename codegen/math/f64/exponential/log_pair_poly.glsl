// ((2 atanh(s) / s - 2) / z - 2/3) / z, z = s^2, |s| <= (sqrt(2) - 1) / (sqrt(2) + 1).
// Minimax polynomial (Remez).
double tg_log_pair_poly_f64(double z) {
  precise double p = 0.10907709913774703lf;
  p = p * z + 0.10438000887481615lf;
  p = p * z + 0.11767764530481528lf;
  p = p * z + 0.13333270372140954lf;
  p = p * z + 0.15384616169035045lf;
  p = p * z + 0.18181818176090478lf;
  p = p * z + 0.22222222222244484lf;
  p = p * z + 0.28571428571428537lf;
  p = p * z + 0.4lf;
  return p;
}
