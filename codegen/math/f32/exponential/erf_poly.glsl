// (erf(x) - x) / x as a function of z = x^2 <= 1.
// Minimax polynomial (Remez).
float tg_erf_poly_f32(float z) {
  precise float p = 7.88911493e-5f;
  p = p * z - 0.000802084047f;
  p = p * z + 0.00518953521f;
  p = p * z - 0.0268544443f;
  p = p * z + 0.112836003f;
  p = p * z - 0.37612626f;
  p = p * z + 0.128379166f;
  return p;
}
