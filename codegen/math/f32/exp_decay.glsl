// e to the power of x <= 0 within 2 ulp, for sums of such powers.
// needs: nearest ln2 exp_short_poly exp2i is_nan
float tg_exp_decay_f32(float x) {
  float bounded = x < -104.0f ? -104.0f : x;
  precise float k = tg_nearest_f32(bounded * tg_inverse_ln2_f32);
  precise float r = fma(k, -tg_ln2_short_f32, bounded);
  r = fma(k, -tg_ln2_rest_f32, r);
  precise float power = 1.0f + fma(r * r, tg_exp_short_poly_f32(r), r);
  // 2^(k + 64), then 2^-64: results below the normal range round once.
  precise float y = power * tg_exp2i_f32(int(k) + 64) * 5.42101086e-20f;
  return tg_is_nan_f32(x) ? x : y;
}
