// Hyperbolic tangent: t / (t + 2) with t = exp(2 |x|) - 1 in two parts.
// needs: expm1_pair pair_div pair_add is_nan copysign tanh_range small
REAL tg_tanh_PREC(REAL x) {
  REAL magnitude = abs(x);
  REAL bounded = magnitude > tg_tanh_max_PREC ? tg_tanh_max_PREC : magnitude;
  precise REAL twice = bounded + bounded;
  REAL2 t = tg_expm1_pair_PREC(twice);
  REAL2 quotient = tg_pair_div_PREC(t, tg_pair_add_PREC(t, REAL2(2.0_r, 0.0_r)));
  REAL y = magnitude >= tg_tanh_max_PREC ? 1.0_r : quotient.x;
  bool itself = magnitude < tg_small_PREC || tg_is_nan_PREC(x);
  return itself ? x : tg_copysign_PREC(y, x);
}
