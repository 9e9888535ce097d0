// Quotient of two unevaluated sums x + y; one division, and the exact remainder corrects it.
// Source: Dekker, A floating-point technique for extending the available precision, 1971.
// needs: two_prod fast_two_sum
REAL2 tg_pair_div_PREC(REAL2 a, REAL2 b) {
  precise REAL inverse = 1.0_r / b.x;
  precise REAL quotient = a.x * inverse;
  REAL2 product = tg_two_prod_PREC(quotient, b.x);
  precise REAL rest = ((a.x - product.x) - product.y) + (a.y - quotient * b.y);
  precise REAL low = rest * inverse;
  return tg_fast_two_sum_PREC(quotient, low);
}
