// Floored modulus: the exact remainder of a / b moved to the sign of b, which rounds once; a zero
// has the sign of b. NaN for infinite a and for b = 0. All of it happens beside the significand of
// b, so that remainders below the normal range move a result like any other.
// needs: remainder log_split exp2i scale is_inf is_nan nan copysign sign_bit
REAL tg_mod_PREC(REAL a, REAL b) {
  bool undefined = tg_is_inf_PREC(a) || b == 0.0_r || tg_is_nan_PREC(a) || tg_is_nan_PREC(b);
  if (undefined) return tg_nan_PREC();
  if (a == 0.0_r) return tg_copysign_PREC(0.0_r, b);
  bool same = tg_sign_bit_PREC(a) == tg_sign_bit_PREC(b);
  if (tg_is_inf_PREC(b)) return same ? a : b;
  REAL2 dividend = tg_log_split_PREC(abs(a));
  REAL2 divisor = tg_log_split_PREC(abs(b));
  int left = int(dividend.y) - int(divisor.y);
  if (left < 0 && same) return a;
  REAL rest;
  if (left < 0) {
    rest = dividend.x * tg_exp2i_PREC(max(left, -64));
  } else {
    rest = tg_remainder_PREC(dividend.x, divisor.x, left);
  }
  precise REAL moved = divisor.x - rest;
  REAL size = rest == 0.0_r || same ? rest : moved;
  return tg_copysign_PREC(tg_scale_PREC(size, int(divisor.y)), b);
}
