// log(m) as an unevaluated sum with about ten bits more than one number has, for m between
// sqrt(1/2) and sqrt(2): 2 s + s^3 (2/3 + s^2 p(s^2)) with s = (m - 1) / (m + 1) and the leading
// terms in two parts. Source: Muller, Elementary Functions, 3rd ed., ch. 11.
// needs: pair_div pair_mul pair_add pair_scale two_sum fast_two_sum log_pair_poly two_thirds
REAL2 tg_log_pair_PREC(REAL m) {
  precise REAL f = m - 1.0_r;
  REAL2 s = tg_pair_div_PREC(REAL2(f, 0.0_r), tg_two_sum_PREC(2.0_r, f));
  REAL2 square = tg_pair_mul_PREC(s, s);
  precise REAL z = square.x;
  precise REAL tail = z * tg_log_pair_poly_PREC(z) + tg_two_thirds_low_PREC;
  REAL2 factor = tg_fast_two_sum_PREC(tg_two_thirds_high_PREC, tail);
  REAL2 cubic = tg_pair_mul_PREC(tg_pair_mul_PREC(s, square), factor);
  return tg_pair_add_PREC(tg_pair_scale_PREC(s, 2.0_r), cubic);
}
