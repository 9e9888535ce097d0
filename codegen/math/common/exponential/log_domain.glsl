// y = log(x) with the values outside of 0 < x < infinity put right.
// needs: nan inf is_nan
REAL tg_log_domain_PREC(REAL x, REAL y) {
  REAL edge = x < 0.0_r ? tg_nan_PREC() : x == 0.0_r ? -tg_inf_PREC() : y;
  bool itself = tg_is_nan_PREC(x) || x == tg_inf_PREC();
  return itself ? x : edge;
}
