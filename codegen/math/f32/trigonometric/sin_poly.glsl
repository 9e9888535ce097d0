// (sin(r) - r) / r^3 as a function of z = r^2, |r| <= pi/4.
// Minimax polynomial (Remez).
float tg_sin_poly_f32(float z) {
  precise float p = 2.71831505e-6f;
  p = p * z - 0.000198393347f;
  p = p * z + 0.00833332911f;
  p = p * z - 0.166666672f;
  return p;
}
