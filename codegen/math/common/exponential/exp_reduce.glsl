// x = z ln 2 + (x + y) with |x + y| <= ln 2 / 2, for moderate x: the sum and z, a whole number.
// z times the first part of ln 2 is exact. Source: Cody & Waite, Software Manual for the Elementary
// Functions, 1980, ch. 6.
// needs: nearest ln2
REAL3 tg_exp_reduce_PREC(REAL x) {
  precise REAL k = tg_nearest_PREC(x * tg_inverse_ln2_PREC);
  precise REAL high = x - k * tg_ln2_short_PREC;
  precise REAL low = k * tg_ln2_rest_PREC;
  precise REAL r = high - low;
  precise REAL rest = (high - r) - low;
  return REAL3(r, rest, k);
}
