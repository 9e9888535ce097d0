// 1 / sqrt(x), each step rounded.
REAL tg_rsqrt_PREC(REAL x) {
  precise REAL root = sqrt(x);
  precise REAL y = 1.0_r / root;
  return y;
}
