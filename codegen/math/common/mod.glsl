// Floored modulus: the exact remainder of a / b moved to the sign of b, which rounds once; a zero
// has the sign of b. NaN for infinite a and for b = 0.
// needs: remainder inf is_inf is_nan nan copysign sign_bit
REAL tg_mod_PREC(REAL a, REAL b) {
  bool undefined = tg_is_inf_PREC(a) || b == 0.0_r || tg_is_nan_PREC(a) || tg_is_nan_PREC(b);
  if (undefined) return tg_nan_PREC();
  bool trivial = a == 0.0_r || tg_is_inf_PREC(b);
  REAL rest = trivial ? a : tg_copysign_PREC(tg_remainder_PREC(abs(a), abs(b)), a);
  precise REAL moved = rest + b;
  REAL y = tg_sign_bit_PREC(rest) == tg_sign_bit_PREC(b) ? rest : moved;
  return rest == 0.0_r ? tg_copysign_PREC(rest, b) : y;
}
