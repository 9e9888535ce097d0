// The exact remainder of a / b for finite a, b > 0: long division of the significands, as many bits
// a step as the quotient holds; a quotient that is off by one is put right.
// needs: log_split two_prod exp2i scale mod_bits
REAL tg_remainder_PREC(REAL a, REAL b) {
  REAL2 dividend = tg_log_split_PREC(a);
  REAL2 divisor = tg_log_split_PREC(b);
  int left = int(dividend.y) - int(divisor.y);
  if (left < 0) return a;
  REAL m = divisor.x;
  precise REAL rest = dividend.x;
  while (true) {
    precise REAL quotient = rest / m;
    REAL whole = floor(quotient);
    REAL2 product = tg_two_prod_PREC(whole, m);
    rest = (rest - product.x) - product.y;
    if (rest < 0.0_r) rest = rest + m;
    if (rest >= m) rest = rest - m;
    if (left == 0) break;
    int step = min(left, tg_mod_bits_PREC);
    rest = rest * tg_exp2i_PREC(step);
    left -= step;
  }
  return tg_scale_PREC(rest, int(divisor.y));
}
