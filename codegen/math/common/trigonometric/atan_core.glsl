// atan(over / under) as an unevaluated sum, for 0 <= over <= under that are far from the ends of
// the range of exponents: turned by atan(1/2) or atan(1) first, then a minimax polynomial.
// Source: Cody & Waite, Software Manual for the Elementary Functions, 1980, ch. 11.
// needs: two_sum pair_div pair_add atan_poly atan_angles
REAL2 tg_atan_core_PREC(REAL over, REAL under) {
  precise REAL low_bound = 0.236_r * under;
  precise REAL high_bound = 0.7208_r * under;
  bool low = over < low_bound;
  bool high = over > high_bound;
  REAL turn = low ? 0.0_r : high ? 1.0_r : 0.5_r;
  REAL2 angle = REAL2(low ? 0.0_r : high ? tg_atan_1_high_PREC : tg_atan_half_high_PREC,
                      low ? 0.0_r : high ? tg_atan_1_low_PREC : tg_atan_half_low_PREC);
  precise REAL turned_over = -turn * under;
  precise REAL turned_under = turn * over;
  REAL2 sine = tg_two_sum_PREC(over, turned_over);
  REAL2 cosine = tg_two_sum_PREC(under, turned_under);
  REAL2 t = tg_pair_div_PREC(sine, cosine);
  precise REAL z = t.x * t.x;
  precise REAL tail = t.y + t.x * z * tg_atan_poly_PREC(z);
  return tg_pair_add_PREC(angle, REAL2(t.x, tail));
}
