// Logarithm to base 2; exact for powers of two.
// needs: log_split log_pair pair_mul pair_add log_domain log2_e
REAL tg_log2_PREC(REAL x) {
  REAL2 split = tg_log_split_PREC(x);
  REAL2 base = REAL2(tg_log2_e_high_PREC, tg_log2_e_low_PREC);
  REAL2 y = tg_pair_mul_PREC(tg_log_pair_PREC(split.x), base);
  return tg_log_domain_PREC(x, tg_pair_add_PREC(REAL2(split.y, 0.0_r), y).x);
}
