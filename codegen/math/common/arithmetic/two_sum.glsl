// a + b without loss: x is the rounded sum, y what rounding lost.
// Source: Knuth, The Art of Computer Programming, vol. 2, 4.2.2, theorem B.
REAL2 tg_two_sum_PREC(REAL a, REAL b) {
  precise REAL sum = a + b;
  precise REAL part = sum - a;
  precise REAL error = (a - (sum - part)) + (b - part);
  return REAL2(sum, error);
}
