// 2 to the power of x. x - k is exact, its product with ln 2 is carried in two parts.
// needs: nearest two_prod exp_core one_plus scale is_nan exp2_range ln2_pair
REAL tg_exp2_PREC(REAL x) {
  REAL below = x > tg_exp2_max_PREC ? tg_exp2_max_PREC : x;
  REAL bounded = below < tg_exp2_min_PREC ? tg_exp2_min_PREC : below;
  REAL k = tg_nearest_PREC(bounded);
  precise REAL fraction = bounded - k;
  REAL2 r = tg_two_prod_PREC(fraction, tg_ln2_high_PREC);
  precise REAL rest = r.y + fraction * tg_ln2_low_PREC;
  REAL y = tg_scale_PREC(tg_one_plus_PREC(tg_exp_core_PREC(r.x, rest)), int(k));
  return tg_is_nan_PREC(x) ? x : y;
}
