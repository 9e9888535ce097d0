// (exp(r) - 1 - r) / r^2 for |r| <= ln 2 / 2.
// Minimax polynomial (Remez).
float tg_exp_poly_f32(float r) {
  precise float p = 0.000199184055f;
  p = p * r + 0.0013946062f;
  p = p * r + 0.00833326392f;
  p = p * r + 0.0416662693f;
  p = p * r + 0.166666672f;
  p = p * r + 0.5f;
  return p;
}
