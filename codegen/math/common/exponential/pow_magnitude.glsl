// x to the power of y for finite x > 0: exp(y log x) with the product carried in two parts.
// Beyond the bound on y the result is 0, 1 or infinity whatever y is.
// Source: Muller, Elementary Functions, 3rd ed., ch. 13.
// needs: log_split two_sum fast_two_sum log_pair pair_add pair_mul exp_reduce exp_core one_plus
// needs: scale copysign ln2 pow_range exp_range
REAL tg_pow_magnitude_PREC(REAL x, REAL y) {
  REAL2 split = tg_log_split_PREC(x);
  precise REAL whole = split.y * tg_ln2_short_PREC;
  precise REAL rest = split.y * tg_ln2_rest_PREC;
  REAL2 log_x = tg_pair_add_PREC(tg_two_sum_PREC(whole, rest), tg_log_pair_PREC(split.x));
  REAL exponent = abs(y) > tg_pow_max_PREC ? tg_copysign_PREC(tg_pow_max_PREC, y) : y;
  REAL2 product = tg_pair_mul_PREC(REAL2(exponent, 0.0_r), log_x);
  bool over = product.x > tg_exp_max_PREC;
  bool under = product.x < tg_exp_min_PREC;
  REAL bounded = over ? tg_exp_max_PREC : under ? tg_exp_min_PREC : product.x;
  REAL3 reduced = tg_exp_reduce_PREC(bounded);
  precise REAL low = reduced.y + (over || under ? 0.0_r : product.y);
  REAL2 r = tg_fast_two_sum_PREC(reduced.x, low);
  REAL2 core = tg_exp_core_PREC(r.x, r.y);
  return tg_scale_PREC(tg_one_plus_PREC(core), int(reduced.z));
}
