// The nearest whole number, ties to even; keeps the sign of zero.
// needs: is_nan copysign whole
REAL tg_round_PREC(REAL x) {
  REAL magnitude = abs(x);
  precise REAL shifted = magnitude + tg_whole_PREC;
  precise REAL whole = shifted - tg_whole_PREC;
  bool itself = magnitude >= tg_whole_PREC || tg_is_nan_PREC(x);
  return itself ? x : tg_copysign_PREC(whole, x);
}
