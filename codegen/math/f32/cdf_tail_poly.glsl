// (f(t) - f(0)) / t for f(t) = cdf(-x) exp(x^2 / 2) (x + k) of the normal distribution,
// t = (x - k) / (x + k), k = 3.03125, 0.65 <= x <= 14.5. Interpolation at Chebyshev nodes.
float tg_cdf_tail_poly_f32(float t) {
  precise float p = -0.000145235099f;
  p = p * t - 0.000943342282f;
  p = p * t + 0.00075128075f;
  p = p * t + 0.00724729663f;
  p = p * t - 0.00930482335f;
  p = p * t - 0.0513380989f;
  p = p * t + 0.235756949f;
  p = p * t - 0.513348877f;
  return p;
}
