// a + b without loss for |a| >= |b|: x is the rounded sum, y what rounding lost.
// Source: Dekker, A floating-point technique for extending the available precision, 1971.
REAL2 tg_fast_two_sum_PREC(REAL a, REAL b) {
  precise REAL sum = a + b;
  precise REAL error = b - (sum - a);
  return REAL2(sum, error);
}
