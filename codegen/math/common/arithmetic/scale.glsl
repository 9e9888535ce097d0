// x times 2 to the power of k in two steps, so that k may leave the range of exponents twofold.
// Rounds once, in the second step, for 1/2 <= |x| < 2 and results below the normal range.
// needs: exp2i
REAL tg_scale_PREC(REAL x, int k) {
  int half_k = k >> 1;
  precise REAL y = x * tg_exp2i_PREC(half_k) * tg_exp2i_PREC(k - half_k);
  return y;
}
