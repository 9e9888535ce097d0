// 1, -1, or x itself where that is a zero or NaN.
// needs: copysign is_nan
REAL tg_sign_PREC(REAL x) {
  REAL unit = tg_copysign_PREC(1.0_r, x);
  bool itself = x == 0.0_r || tg_is_nan_PREC(x);
  return itself ? x : unit;
}
