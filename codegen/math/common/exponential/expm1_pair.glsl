// exp(x) - 1 as an unevaluated sum, for |x| <= 40 (20 in single precision).
// needs: exp_reduce exp_core exp2i pair_add pair_scale
REAL2 tg_expm1_pair_PREC(REAL x) {
  REAL3 reduced = tg_exp_reduce_PREC(x);
  int k = int(reduced.z);
  REAL2 core = tg_exp_core_PREC(reduced.x, reduced.y);
  precise REAL whole = 1.0_r - tg_exp2i_PREC(-k);
  REAL2 sum = tg_pair_add_PREC(REAL2(whole, 0.0_r), core);
  return tg_pair_scale_PREC(sum, tg_exp2i_PREC(k));
}
