// 1 + (x + y), rounded once, for |x + y| < 1.
// needs: fast_two_sum
REAL tg_one_plus_PREC(REAL2 a) {
  REAL2 sum = tg_fast_two_sum_PREC(1.0_r, a.x);
  precise REAL y = sum.x + (sum.y + a.y);
  return y;
}
