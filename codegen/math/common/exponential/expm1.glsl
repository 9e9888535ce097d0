// exp(x) - 1 without cancellation near 0.
// needs: exp_reduce exp_core exp2i pair_add scale is_nan exp_range expm1_range tiny
REAL tg_expm1_PREC(REAL x) {
  REAL below = x > tg_exp_max_PREC ? tg_exp_max_PREC : x;
  REAL bounded = below < tg_expm1_min_PREC ? tg_expm1_min_PREC : below;
  REAL3 reduced = tg_exp_reduce_PREC(bounded);
  int k = int(reduced.z);
  REAL2 core = tg_exp_core_PREC(reduced.x, reduced.y);
  precise REAL whole = 1.0_r - tg_exp2i_PREC(-min(k, tg_scale_max_PREC));
  REAL2 sum = tg_pair_add_PREC(REAL2(whole, 0.0_r), core);
  REAL y = tg_scale_PREC(sum.x, k);
  bool itself = abs(x) < tg_tiny_PREC || tg_is_nan_PREC(x);
  return itself ? x : y;
}
