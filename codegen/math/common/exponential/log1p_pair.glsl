// log(1 + x + y) for an unevaluated sum x + y > -1, finite. Near 1 the correction lost / sum takes a
// form in which an inexact division does not show.
// needs: two_sum log_split log_core
REAL tg_log1p_pair_PREC(REAL2 u) {
  REAL2 sum = tg_two_sum_PREC(1.0_r, u.x);
  precise REAL lost = sum.y + u.y;
  REAL2 split = tg_log_split_PREC(sum.x);
  precise REAL f = split.x - 1.0_r;
  precise REAL near = lost - lost * ((sum.x - 1.0_r) / sum.x);
  precise REAL far = lost / sum.x;
  REAL c = split.y == 0.0_r ? near : far;
  return tg_log_core_PREC(f, c, split.y);
}
