// Cosine of x radians over the whole range.
// needs: trig_reduce sin_core cos_core is_nan is_inf nan
REAL tg_cos_PREC(REAL x) {
  REAL3 reduced = tg_trig_reduce_PREC(x);
  int quarter = int(reduced.z) & 3;
  REAL2 s = tg_sin_core_PREC(reduced.x, reduced.y);
  REAL2 c = tg_cos_core_PREC(reduced.x, reduced.y);
  precise REAL y = (quarter & 1) == 0 ? c.x + c.y : s.x + s.y;
  REAL turned = quarter == 1 || quarter == 2 ? -y : y;
  bool undefined = tg_is_nan_PREC(x) || tg_is_inf_PREC(x);
  return undefined ? tg_nan_PREC() : turned;
}
