// erfc(x) exp(x^2) as a function of z = (x - 3) / (x + 3), 1 <= x <= 4.
// Minimax polynomial (Remez).
float tg_erfc_poly_f32(float z) {
  precise float p = 0.000925614848f;
  p = p * z - 0.0280370358f;
  p = p * z + 0.0697260499f;
  p = p * z - 0.150687501f;
  p = p * z + 0.245510325f;
  p = p * z - 0.326241285f;
  p = p * z + 0.179000914f;
  return p;
}
