// Cumulative distribution of the standard normal law, erfc(-x / sqrt(2)) / 2. Near 0 a polynomial of
// x^2; beyond, exp(-x^2 / 2) in two parts times a polynomial of (|x| - k) / (|x| + k) over |x| + k,
// so that far tails have all their digits.
// Source: Shepherd & Laframboise, Chebyshev approximation of (1 + 2x) exp(x^2) erfc(x), 1981 (the
// form of the tail).
// needs: cdf_near_poly cdf_tail_poly cdf_range two_sum two_prod fast_two_sum pair_add pair_div
// needs: pair_mul exp_reduce exp_core scale is_nan
REAL tg_normal_cdf_PREC(REAL x) {
  REAL magnitude = abs(x);
  REAL y;
  if (magnitude < 0.65_r) {
    precise REAL near = 0.5_r + x * tg_cdf_near_poly_PREC(x * x);
    y = near;
  } else {
    REAL u = magnitude > tg_cdf_max_PREC ? tg_cdf_max_PREC : magnitude;
    REAL2 below = tg_two_sum_PREC(u, -tg_cdf_tail_PREC);
    REAL2 above = tg_two_sum_PREC(u, tg_cdf_tail_PREC);
    REAL2 t = tg_pair_div_PREC(below, above);
    REAL slope = tg_cdf_tail_poly_PREC(t.x);
    REAL2 product = tg_two_prod_PREC(t.x, slope);
    precise REAL lost = product.y + t.y * slope;
    REAL2 f = tg_pair_add_PREC(REAL2(tg_cdf_tail_middle_PREC, 0.0_r), REAL2(product.x, lost));
    REAL2 scaled = tg_pair_div_PREC(f, above);
    REAL2 square = tg_two_prod_PREC(u, u);
    REAL3 reduced = tg_exp_reduce_PREC(-0.5_r * square.x);
    precise REAL rest = reduced.y - 0.5_r * square.y;
    REAL2 r = tg_fast_two_sum_PREC(reduced.x, rest);
    REAL2 core = tg_exp_core_PREC(r.x, r.y);
    REAL2 power = tg_fast_two_sum_PREC(1.0_r, core.x);
    REAL2 tail = tg_pair_mul_PREC(scaled, REAL2(power.x, power.y + core.y));
    REAL lower = tg_scale_PREC(tail.x, int(reduced.z));
    precise REAL upper = 1.0_r - lower;
    y = x < 0.0_r ? lower : upper;
  }
  return tg_is_nan_PREC(x) ? x : y;
}
