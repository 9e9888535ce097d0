// An unevaluated sum x + y times a power of two, or the negative of one.
REAL2 tg_pair_scale_PREC(REAL2 a, REAL power) {
  precise REAL high = a.x * power;
  precise REAL low = a.y * power;
  return REAL2(high, low);
}
