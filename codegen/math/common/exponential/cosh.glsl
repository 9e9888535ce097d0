// Hyperbolic cosine: 2^(k - 1) (e + 2^(-2k) / e) with exp(|x|) = 2^k e.
// needs: exp_reduce exp_core exp2i pair_add two_sum scale is_nan cosh_range expm1_range
REAL tg_cosh_PREC(REAL x) {
  REAL magnitude = abs(x);
  REAL bounded = magnitude > tg_cosh_max_PREC ? tg_cosh_max_PREC : magnitude;
  REAL3 reduced = tg_exp_reduce_PREC(bounded);
  int k = int(reduced.z);
  REAL2 core = tg_exp_core_PREC(reduced.x, reduced.y);
  REAL2 e = tg_pair_add_PREC(REAL2(1.0_r, 0.0_r), core);
  precise REAL other = tg_exp2i_PREC(-min(k + k, tg_scale_max_PREC)) / e.x;
  REAL2 sum = tg_two_sum_PREC(e.x, other);
  precise REAL rounded = sum.x + (sum.y + e.y);
  REAL y = tg_scale_PREC(rounded, k - 1);
  return tg_is_nan_PREC(x) ? x : y;
}
