// (f(t) - f(0)) / t for f(t) = cdf(-u) exp(u^2 / 2) (u + k) of the normal distribution,
// t = (u - k) / (u + k), k = 1.5, 0 <= u <= 14.5. Interpolation at Chebyshev nodes.
float tg_cdf_tail_poly_f32(float t) {
  precise float p = 0.000158031515f;
  p = fma(p, t, 0.000471279607f);
  p = fma(p, t, 0.00024008601f);
  p = fma(p, t, -0.00105012546f);
  p = fma(p, t, -0.00270501431f);
  p = fma(p, t, -0.00243016076f);
  p = fma(p, t, 0.00398705527f);
  p = fma(p, t, 0.0176397003f);
  p = fma(p, t, 0.0178965796f);
  p = fma(p, t, -0.0574954376f);
  p = fma(p, t, -0.195099473f);
  return p;
}
