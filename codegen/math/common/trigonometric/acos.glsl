// Inverse cosine; NaN outside of -1 <= x <= 1.
// needs: asin_poly asin_core pair_scale pi pair_add nan is_nan
REAL tg_acos_PREC(REAL x) {
  REAL magnitude = abs(x);
  REAL y;
  if (magnitude < 0.5_r) {
    precise REAL z = x * x;
    precise REAL tail = -x * (z * tg_asin_poly_PREC(z));
    y = tg_pair_add_PREC(tg_half_pi_PREC, REAL2(-x, tail)).x;
  } else {
    REAL2 half_acos = tg_asin_core_PREC(magnitude > 1.0_r ? 1.0_r : magnitude);
    REAL2 minus_acos = tg_pair_scale_PREC(half_acos, -2.0_r);
    REAL left = tg_pair_add_PREC(tg_pi_PREC, minus_acos).x;
    y = x < 0.0_r ? left : -minus_acos.x;
  }
  REAL edge = magnitude > 1.0_r ? tg_nan_PREC() : y;
  return tg_is_nan_PREC(x) ? x : edge;
}
