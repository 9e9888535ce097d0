// (exp(r) - 1 - r) / r^2 for -0.405 <= r <= 0.35, within 2.1e-8 of exp(r).
// Weighted least squares, iterated towards the minimax polynomial.
float tg_exp_short_poly_f32(float r) {
  precise float p = 0.00136410701f;
  p = fma(p, r, 0.00836643297f);
  p = fma(p, r, 0.0416695476f);
  p = fma(p, r, 0.166665554f);
  p = fma(p, r, 0.49999997f);
  return p;
}
