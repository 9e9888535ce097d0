// sqrt(x^2 + y^2) without overflow or underflow on the way; infinite if one operand is.
// needs: rescale pair_add two_prod pair_sqrt is_inf is_nan inf nan
REAL tg_hypot_PREC(REAL x, REAL y) {
  REAL ax = abs(x);
  REAL ay = abs(y);
  REAL large = ax > ay ? ax : ay;
  REAL small = ax > ay ? ay : ax;
  REAL factor = tg_rescale_PREC(large);
  precise REAL a = large * factor;
  precise REAL b = small * factor;
  REAL2 sum = tg_pair_add_PREC(tg_two_prod_PREC(a, a), tg_two_prod_PREC(b, b));
  precise REAL root = tg_pair_sqrt_PREC(sum).x / factor;
  bool infinite = tg_is_inf_PREC(x) || tg_is_inf_PREC(y);
  bool undefined = tg_is_nan_PREC(x) || tg_is_nan_PREC(y);
  return infinite ? tg_inf_PREC() : undefined ? tg_nan_PREC() : root;
}
