// Inverse hyperbolic tangent: log1p(2 x / (1 - x)) / 2.
// needs: pair_div two_sum log1p_pair nan inf is_nan copysign small
REAL tg_atanh_PREC(REAL x) {
  REAL magnitude = abs(x);
  REAL bounded = magnitude < 1.0_r ? magnitude : 0.0_r;
  precise REAL twice = bounded + bounded;
  REAL2 ratio = tg_pair_div_PREC(REAL2(twice, 0.0_r), tg_two_sum_PREC(1.0_r, -bounded));
  precise REAL y = 0.5_r * tg_log1p_pair_PREC(ratio);
  REAL edge = magnitude > 1.0_r ? tg_nan_PREC() : magnitude == 1.0_r ? tg_inf_PREC() : y;
  bool itself = magnitude < tg_small_PREC || tg_is_nan_PREC(x);
  return itself ? x : tg_copysign_PREC(edge, x);
}
