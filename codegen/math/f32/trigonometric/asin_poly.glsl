// (asin(t) - t) / t^3 as a function of z = t^2 <= 1/4.
// Minimax polynomial (Remez).
float tg_asin_poly_f32(float z) {
  precise float p = 0.0375567861f;
  p = p * z + 0.0144092049f;
  p = p * z + 0.0318156518f;
  p = p * z + 0.0445159897f;
  p = p * z + 0.0750050917f;
  p = p * z + 0.166666597f;
  return p;
}
