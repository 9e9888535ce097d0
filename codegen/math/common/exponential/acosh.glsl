// Inverse hyperbolic cosine: log1p(t + sqrt(t (x + 1))) with t = x - 1, and log(2 x) far out.
// needs: two_sum pair_sqrt pair_mul pair_add log1p_pair log_split log_core nan inf is_nan big
REAL tg_acosh_PREC(REAL x) {
  REAL y;
  if (x < tg_big_PREC) {
    REAL bounded = x < 1.0_r ? 1.0_r : x;
    REAL2 t = tg_two_sum_PREC(bounded, -1.0_r);
    REAL2 root = tg_pair_sqrt_PREC(tg_pair_mul_PREC(t, tg_two_sum_PREC(bounded, 1.0_r)));
    y = tg_log1p_pair_PREC(tg_pair_add_PREC(t, root));
  } else {
    REAL2 split = tg_log_split_PREC(x);
    precise REAL f = split.x - 1.0_r;
    precise REAL k = split.y + 1.0_r;
    y = tg_log_core_PREC(f, 0.0_r, k);
  }
  REAL edge = x < 1.0_r ? tg_nan_PREC() : y;
  bool itself = tg_is_nan_PREC(x) || x == tg_inf_PREC();
  return itself ? x : edge;
}
