// Inverse sine; NaN outside of -1 <= x <= 1.
// needs: asin_poly asin_core pair_scale pi pair_add nan is_nan copysign
REAL tg_asin_PREC(REAL x) {
  REAL magnitude = abs(x);
  REAL y;
  if (magnitude < 0.5_r) {
    precise REAL z = magnitude * magnitude;
    precise REAL inner = magnitude + magnitude * (z * tg_asin_poly_PREC(z));
    y = inner;
  } else {
    REAL2 half_acos = tg_asin_core_PREC(magnitude > 1.0_r ? 1.0_r : magnitude);
    REAL2 minus_acos = tg_pair_scale_PREC(half_acos, -2.0_r);
    y = tg_pair_add_PREC(tg_half_pi_PREC, minus_acos).x;
  }
  REAL edge = magnitude > 1.0_r ? tg_nan_PREC() : tg_copysign_PREC(y, x);
  return tg_is_nan_PREC(x) ? x : edge;
}
