// cdf(-u) exp(u^2 / 2) (u + k) of the normal distribution as a function of t = u / (u + k), k = 2.5,
// 0 <= u <= 14.5. Weighted least squares, iterated towards the minimax polynomial.
float tg_cdf_tail_poly_f32(float t) {
  precise float p = -0.0796379298f;
  p = fma(p, t, 0.279129684f);
  p = fma(p, t, -0.312459379f);
  p = fma(p, t, 0.137301281f);
  p = fma(p, t, -0.149450645f);
  p = fma(p, t, 0.0559691079f);
  p = fma(p, t, 0.291873842f);
  p = fma(p, t, 0.169607028f);
  p = fma(p, t, -1.24339223f);
  p = fma(p, t, 1.25f);
  return p;
}
