// Error function: x + x p(x^2) up to 1, then 1 - exp(-x^2) q((x - 3) / (x + 3)).
// Source: Cody, Rational Chebyshev approximations for the error function, 1969 (the splitting).
// needs: erf_poly erfc_poly exp is_nan copysign erf_range erf_slope
REAL tg_erf_PREC(REAL x) {
  REAL magnitude = abs(x);
  REAL y;
  if (magnitude < 1.0_r) {
    precise REAL inner = magnitude + magnitude * tg_erf_poly_PREC(magnitude * magnitude);
    precise REAL linear = magnitude * tg_erf_slope_PREC;
    y = magnitude < tg_erf_linear_PREC ? linear : inner;
  } else {
    REAL bounded = magnitude > tg_erf_max_PREC ? tg_erf_max_PREC : magnitude;
    precise REAL s = (bounded - 3.0_r) / (bounded + 3.0_r);
    precise REAL outer = 1.0_r - tg_exp_PREC(-bounded * bounded) * tg_erfc_poly_PREC(s);
    y = outer;
  }
  return tg_is_nan_PREC(x) ? x : tg_copysign_PREC(y, x);
}
