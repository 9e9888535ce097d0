// Cube root: a polynomial for the root of the significand, one step of Halley, one of Newton with
// the remainder in two parts. Source: Muller, Elementary Functions, 3rd ed., ch. 5.
// needs: log_split two_prod scale inf copysign cbrt_poly cbrt_roots
REAL tg_cbrt_PREC(REAL x) {
  REAL magnitude = abs(x);
  bool ordinary = magnitude > 0.0_r && magnitude < tg_inf_PREC();
  REAL2 split = tg_log_split_PREC(ordinary ? magnitude : 1.0_r);
  int k = int(split.y) + 3 * 400;
  int third = k / 3;
  int left = k - 3 * third;
  precise REAL m = split.x * (left == 0 ? 1.0_r : left == 1 ? 2.0_r : 4.0_r);
  REAL root_of_power = left == 0 ? 1.0_r : left == 1 ? tg_cbrt_2_PREC : tg_cbrt_4_PREC;
  precise REAL y = tg_cbrt_poly_PREC(split.x) * root_of_power;
  precise REAL cube = y * y * y;
  y = y * ((cube + (m + m)) / ((cube + cube) + m));
  REAL2 square = tg_two_prod_PREC(y, y);
  REAL2 full = tg_two_prod_PREC(square.x, y);
  precise REAL rest = ((m - full.x) - full.y) - square.y * y;
  y = y + rest / (3.0_r * square.x);
  REAL root = tg_scale_PREC(y, third - 400);
  return ordinary ? tg_copysign_PREC(root, x) : x;
}
