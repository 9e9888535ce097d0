// (cos(r) - 1 + z / 2) / z^2 as a function of z = r^2, |r| <= pi/4.
// Minimax polynomial (Remez).
float tg_cos_poly_f32(float z) {
  precise float p = 2.44385519e-5f;
  p = p * z - 0.00138873688f;
  p = p * z + 0.0416666456f;
  return p;
}
