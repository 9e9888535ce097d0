// Natural logarithm.
// needs: log_split log_core log_domain
REAL tg_log_PREC(REAL x) {
  REAL2 split = tg_log_split_PREC(x);
  precise REAL f = split.x - 1.0_r;
  return tg_log_domain_PREC(x, tg_log_core_PREC(f, 0.0_r, split.y));
}
