// x = z pi/2 + (x + y) with |x + y| <= pi/4: the sum and a whole z, right modulo 4; anything for
// infinity and NaN.
// needs: trig_reduce_near trig_reduce_far is_nan is_inf half_pi_parts
REAL3 tg_trig_reduce_PREC(REAL x) {
  if (abs(x) <= tg_trig_near_PREC) return tg_trig_reduce_near_PREC(x);
  return tg_trig_reduce_far_PREC(tg_is_nan_PREC(x) || tg_is_inf_PREC(x) ? tg_trig_near_PREC : x);
}
