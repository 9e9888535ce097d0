// e to the power of x <= 0 within 2 ulp, for sums of such powers.
// needs: ln2 exp_short_poly is_nan
float tg_exp_decay_f32(float x) {
  float bounded = x < -104.0f ? -104.0f : x;
  // The nearest whole number, also in the lowest bits of what 1.5 * 2^23 is added to.
  precise float shifted = fma(bounded, tg_inverse_ln2_f32, 12582912.0f);
  precise float k = shifted - 12582912.0f;
  precise float r = fma(k, -tg_ln2_short_f32, bounded);
  r = fma(k, -tg_ln2_rest_f32, r);
  precise float slope = fma(tg_exp_short_poly_f32(r), r, 1.0f);
  precise float power = fma(slope, r, 1.0f);
  // 2^(k + 64), then 2^-64: results below the normal range round once.
  float scale = uintBitsToFloat((floatBitsToUint(shifted) << 23) + (191u << 23));
  precise float y = power * scale * 5.42101086e-20f;
  return tg_is_nan_f32(x) ? x : y;
}
