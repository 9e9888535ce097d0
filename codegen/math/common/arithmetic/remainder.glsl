// The exact remainder of a 2^left / m for a and m between a half and two: long division, as many
// bits a step as the quotient holds; a quotient that is off by one is put right.
// needs: two_prod exp2i mod_bits
REAL tg_remainder_PREC(REAL a, REAL m, int left) {
  precise REAL rest = a;
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
  return rest;
}
