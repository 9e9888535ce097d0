// log(1 + x) without cancellation near 0.
// needs: log1p_pair nan inf is_nan tiny
REAL tg_log1p_PREC(REAL x) {
  REAL y = tg_log1p_pair_PREC(REAL2(x, 0.0_r));
  REAL edge = x < -1.0_r ? tg_nan_PREC() : x == -1.0_r ? -tg_inf_PREC() : y;
  bool itself = abs(x) < tg_tiny_PREC || tg_is_nan_PREC(x) || x == tg_inf_PREC();
  return itself ? x : edge;
}
