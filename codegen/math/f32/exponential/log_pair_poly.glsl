// ((2 atanh(s) / s - 2) / z - 2/3) / z, z = s^2, |s| <= (sqrt(2) - 1) / (sqrt(2) + 1).
// Minimax polynomial (Remez).
float tg_log_pair_poly_f32(float z) {
  precise float p = 0.193586662f;
  p = p * z + 0.221921727f;
  p = p * z + 0.285717249f;
  p = p * z + 0.400000006f;
  return p;
}
