// Cumulative distribution of the standard normal law, erfc(-x / sqrt(2)) / 2. Near 0 a polynomial of
// x^2; beyond, exp(-x^2 / 2) in two parts times a polynomial of (|x| - k) / (|x| + k) over |x| + k,
// so that far tails have all their digits.
// Source: Shepherd & Laframboise, Chebyshev approximation of (1 + 2x) exp(x^2) erfc(x), 1981 (the
// form of the tail).
// needs: cdf_near_poly cdf_tail_poly cdf_range two_sum two_prod fast_two_sum pair_add pair_div
// needs: pair_mul exp_reduce exp_core scale is_nan
double tg_normal_cdf_f64(double x) {
  double magnitude = abs(x);
  double y;
  if (magnitude < 0.65lf) {
    precise double near = 0.5lf + x * tg_cdf_near_poly_f64(x * x);
    y = near;
  } else {
    double u = magnitude > tg_cdf_max_f64 ? tg_cdf_max_f64 : magnitude;
    dvec2 below = tg_two_sum_f64(u, -tg_cdf_tail_f64);
    dvec2 above = tg_two_sum_f64(u, tg_cdf_tail_f64);
    dvec2 t = tg_pair_div_f64(below, above);
    double slope = tg_cdf_tail_poly_f64(t.x);
    dvec2 product = tg_two_prod_f64(t.x, slope);
    precise double lost = product.y + t.y * slope;
    dvec2 f = tg_pair_add_f64(dvec2(tg_cdf_tail_middle_f64, 0.0lf), dvec2(product.x, lost));
    dvec2 scaled = tg_pair_div_f64(f, above);
    dvec2 square = tg_two_prod_f64(u, u);
    dvec3 reduced = tg_exp_reduce_f64(-0.5lf * square.x);
    precise double rest = reduced.y - 0.5lf * square.y;
    dvec2 r = tg_fast_two_sum_f64(reduced.x, rest);
    dvec2 core = tg_exp_core_f64(r.x, r.y);
    dvec2 power = tg_fast_two_sum_f64(1.0lf, core.x);
    dvec2 tail = tg_pair_mul_f64(scaled, dvec2(power.x, power.y + core.y));
    double lower = tg_scale_f64(tail.x, int(reduced.z));
    precise double upper = 1.0lf - lower;
    y = x < 0.0lf ? lower : upper;
  }
  return tg_is_nan_f64(x) ? x : y;
}
