// (2 atanh(s) / s - 2) / z as a function of z = s^2, |s| <= (sqrt(2) - 1) / (sqrt(2) + 1).
// Minimax polynomial (Remez).
float tg_log_poly_f32(float z) {
  precise float p = 0.235791162f;
  p = p * z + 0.28537491f;
  p = p * z + 0.400003314f;
  p = p * z + 0.666666627f;
  return p;
}
