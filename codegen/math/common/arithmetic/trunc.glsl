// The nearest whole number towards zero; keeps the sign of zero. Drivers' own trunc fails in f64 on
// some processors: beyond 2^24, and for -0.
// needs: copysign
REAL tg_trunc_PREC(REAL x) {
  return tg_copysign_PREC(floor(abs(x)), x);
}
