// Logarithm to base 10; exact for powers of ten.
// needs: log_split log_pair pair_mul pair_add two_sum log_domain log10_e
REAL tg_log10_PREC(REAL x) {
  REAL2 split = tg_log_split_PREC(x);
  REAL2 base = REAL2(tg_log10_e_high_PREC, tg_log10_e_low_PREC);
  REAL2 y = tg_pair_mul_PREC(tg_log_pair_PREC(split.x), base);
  precise REAL whole = split.y * tg_log10_2_short_PREC;
  precise REAL rest = split.y * tg_log10_2_rest_PREC;
  return tg_log_domain_PREC(x, tg_pair_add_PREC(tg_two_sum_PREC(whole, rest), y).x);
}
