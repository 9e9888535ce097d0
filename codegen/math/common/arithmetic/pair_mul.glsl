// Product of two unevaluated sums x + y.
// Source: Dekker, A floating-point technique for extending the available precision, 1971.
// needs: two_prod fast_two_sum
REAL2 tg_pair_mul_PREC(REAL2 a, REAL2 b) {
  REAL2 product = tg_two_prod_PREC(a.x, b.x);
  precise REAL low = product.y + (a.x * b.y + a.y * b.x);
  return tg_fast_two_sum_PREC(product.x, low);
}
