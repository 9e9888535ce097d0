// Inverse hyperbolic sine: log1p(x + x^2 / (1 + sqrt(1 + x^2))), and log(2 x) far out.
// needs: two_prod pair_sqrt pair_add pair_div log1p_pair log_split log_core inf is_nan copysign
// needs: big small
REAL tg_asinh_PREC(REAL x) {
  REAL magnitude = abs(x);
  REAL y;
  if (magnitude < tg_big_PREC) {
    REAL2 square = tg_two_prod_PREC(magnitude, magnitude);
    REAL2 root = tg_pair_sqrt_PREC(tg_pair_add_PREC(square, REAL2(1.0_r, 0.0_r)));
    REAL2 quotient = tg_pair_div_PREC(square, tg_pair_add_PREC(root, REAL2(1.0_r, 0.0_r)));
    y = tg_log1p_pair_PREC(tg_pair_add_PREC(REAL2(magnitude, 0.0_r), quotient));
  } else {
    REAL2 split = tg_log_split_PREC(magnitude);
    precise REAL f = split.x - 1.0_r;
    precise REAL k = split.y + 1.0_r;
    y = tg_log_core_PREC(f, 0.0_r, k);
  }
  bool itself = magnitude < tg_small_PREC || tg_is_nan_PREC(x) || magnitude == tg_inf_PREC();
  return itself ? x : tg_copysign_PREC(y, x);
}
