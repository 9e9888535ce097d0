// Tangent of x radians over the whole range: sine over cosine, both in two parts.
// needs: trig_reduce sin_core cos_core fast_two_sum pair_div is_nan is_inf nan small
REAL tg_tan_PREC(REAL x) {
  REAL3 reduced = tg_trig_reduce_PREC(x);
  bool even = (int(reduced.z) & 1) == 0;
  REAL2 s = tg_sin_core_PREC(reduced.x, reduced.y);
  REAL2 c = tg_cos_core_PREC(reduced.x, reduced.y);
  s = tg_fast_two_sum_PREC(s.x, s.y);
  c = tg_fast_two_sum_PREC(c.x, c.y);
  REAL2 over = REAL2(even ? s.x : -c.x, even ? s.y : -c.y);
  REAL2 under = REAL2(even ? c.x : s.x, even ? c.y : s.y);
  REAL y = tg_pair_div_PREC(over, under).x;
  bool undefined = tg_is_nan_PREC(x) || tg_is_inf_PREC(x);
  return undefined ? tg_nan_PREC() : abs(x) < tg_small_PREC ? x : y;
}
