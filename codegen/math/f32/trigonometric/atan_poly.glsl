// (atan(t) - t) / t^3 as a function of z = t^2, |t| <= 0.2372.
// Minimax polynomial (Remez).
float tg_atan_poly_f32(float z) {
  precise float p = 0.099564679f;
  p = p * z - 0.142326355f;
  p = p * z + 0.199990273f;
  p = p * z - 0.333333284f;
  return p;
}
