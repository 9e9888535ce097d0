// log(2^k (1 + f)) + c for -0.3 < f < 0.42 and a tiny c.
// With s = f / (2 + f) and h = f^2 / 2, log(1 + f) = 2 atanh(s) = f - (h - s (h + s^2 p(s^2))): the
// largest term is exact. Source: Cody & Waite, Software Manual for the Elementary Functions, ch. 5;
// Muller, Elementary Functions, 3rd ed., ch. 11.
// needs: log_poly ln2
REAL tg_log_core_PREC(REAL f, REAL c, REAL k) {
  precise REAL s = f / (2.0_r + f);
  precise REAL z = s * s;
  precise REAL h = 0.5_r * f * f;
  precise REAL low = s * (h + z * tg_log_poly_PREC(z)) + (k * tg_ln2_rest_PREC + c);
  precise REAL y = k * tg_ln2_short_PREC - ((h - low) - f);
  return y;
}
