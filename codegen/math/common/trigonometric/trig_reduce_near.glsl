// x = z pi/2 + (x + y) with |x + y| <= pi/4 for |x| <= tg_trig_near: the sum and z, a whole number.
// pi/2 in three short parts whose products with z are exact, and a fourth.
// Source: Cody & Waite, Software Manual for the Elementary Functions, 1980, ch. 8.
// needs: nearest two_sum fast_two_sum half_pi_parts
REAL3 tg_trig_reduce_near_PREC(REAL x) {
  precise REAL quotient = x * tg_inverse_half_pi_PREC;
  REAL n = tg_nearest_PREC(quotient);
  precise REAL first = x - n * tg_half_pi_1_PREC;
  precise REAL product = n * tg_half_pi_2_PREC;
  REAL2 second = tg_two_sum_PREC(first, -product);
  precise REAL small = n * tg_half_pi_3_PREC;
  REAL2 third = tg_two_sum_PREC(second.x, -small);
  precise REAL low = (second.y + third.y) - n * tg_half_pi_4_PREC;
  REAL2 r = tg_fast_two_sum_PREC(third.x, low);
  return REAL3(r.x, r.y, n);
}
