// Cumulative distribution of the standard normal law, erfc(-x / sqrt(2)) / 2, without a branch: its
// lower tail is exp(-u^2 / 2) f(t) / (u + k), u = |x|, t = (u - k) / (u + k). u^2 is h^2 + (u - h) (u + h),
// where h has the upper half of the digits of u and an exact square. The rounding error of u + k goes
// into the exponent. Sums of fma() may be fused with products or not, and regrouped where they are not.
// Source: Shepherd & Laframboise, Chebyshev approximation of (1 + 2x) exp(x^2) erfc(x), 1981 (the
// form of the tail).
// needs: cdf_tail_poly cdf_range ln2 exp_short_poly scale_small is_nan
float tg_normal_cdf_f32(float x) {
  float magnitude = abs(x);
  float u = magnitude > tg_cdf_max_f32 ? tg_cdf_max_f32 : magnitude;
  float h = uintBitsToFloat(floatBitsToUint(u) & 0xfffff000u);
  precise float half_h = -0.5f * h;
  precise float square = half_h * h;
  precise float rest = (-0.5f * u - half_h) * (u + h);
  precise float above = u + tg_cdf_tail_f32;
  precise float lost = (above - tg_cdf_tail_f32) - u;
  precise float inverse = 1.0f / above;

  // The exponent in units of ln 2: a whole number, which is in the last bits of `shifted`, and the rest.
  precise float shifted = square * tg_inverse_ln2_f32 + 12582912.0f;
  precise float k = shifted - 12582912.0f;
  precise float high = square - k * tg_ln2_short_f32;
  precise float r = high + fma(lost, inverse, fma(-k, tg_ln2_rest_f32, rest));
  precise float power = fma(r * r, tg_exp_short_poly_f32(r), r);  // exp(r) - 1

  precise float t = fma(-2.0f * tg_cdf_tail_f32, inverse, 1.0f);
  precise float slope = t * tg_cdf_tail_poly_f32(t);
  precise float change = fma(power, tg_cdf_tail_middle_f32 + slope, slope);
  precise float front = (tg_cdf_tail_middle_f32 + change) * inverse;
  float lower = tg_scale_small_f32(front, floatBitsToUint(shifted));
  precise float upper = 1.0f - lower;
  float y = x < 0.0f ? lower : upper;
  return tg_is_nan_f32(x) ? x : y;
}
