// The larger operand; NaN if either is, and -0 is less than +0.
// Source: IEEE 754-2019, 9.6, maximum.
// needs: is_nan sign_bit nan
REAL tg_max_PREC(REAL a, REAL b) {
  bool undefined = tg_is_nan_PREC(a) || tg_is_nan_PREC(b);
  bool first = a > b || (a == b && !tg_sign_bit_PREC(a));
  return undefined ? tg_nan_PREC() : first ? a : b;
}
