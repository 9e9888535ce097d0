// Cube root of 1/2 <= z <= 3/2, roughly.
// Minimax polynomial (Remez).
float tg_cbrt_poly_f32(float z) {
  precise float p = -0.0104503473f;
  p = p * z + 0.0851740837f;
  p = p * z - 0.29859519f;
  p = p * z + 0.716222703f;
  p = p * z + 0.507659018f;
  return p;
}
