// Sum of two unevaluated sums x + y.
// Source: Dekker, A floating-point technique for extending the available precision, 1971.
// needs: two_sum fast_two_sum
REAL2 tg_pair_add_PREC(REAL2 a, REAL2 b) {
  REAL2 sum = tg_two_sum_PREC(a.x, b.x);
  precise REAL low = sum.y + (a.y + b.y);
  return tg_fast_two_sum_PREC(sum.x, low);
}
