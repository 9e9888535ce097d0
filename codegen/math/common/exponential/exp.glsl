// e to the power of x.
// needs: exp_reduce exp_core one_plus scale is_nan exp_range
REAL tg_exp_PREC(REAL x) {
  REAL below = x > tg_exp_max_PREC ? tg_exp_max_PREC : x;
  REAL bounded = below < tg_exp_min_PREC ? tg_exp_min_PREC : below;
  REAL3 reduced = tg_exp_reduce_PREC(bounded);
  REAL2 core = tg_exp_core_PREC(reduced.x, reduced.y);
  REAL y = tg_scale_PREC(tg_one_plus_PREC(core), int(reduced.z));
  return tg_is_nan_PREC(x) ? x : y;
}
