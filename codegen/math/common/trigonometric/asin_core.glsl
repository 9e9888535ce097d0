// asin(sqrt((1 - x) / 2)) as an unevaluated sum, for 1/2 <= x <= 1; acos(x) is twice that.
// Source: Cody & Waite, Software Manual for the Elementary Functions, 1980, ch. 10.
// needs: pair_sqrt asin_poly fast_two_sum
REAL2 tg_asin_core_PREC(REAL x) {
  precise REAL z = 0.5_r * (1.0_r - x);
  REAL2 root = tg_pair_sqrt_PREC(REAL2(z, 0.0_r));
  precise REAL tail = root.y + root.x * (z * tg_asin_poly_PREC(z));
  return tg_fast_two_sum_PREC(root.x, tail);
}
