// 1 / (1 + exp(-x)), with all digits in the lower tail.
// needs: exp two_sum pair_div
REAL tg_sigmoid_PREC(REAL x) {
  REAL power = tg_exp_PREC(-abs(x));
  REAL numerator = x < 0.0_r ? power : 1.0_r;
  return tg_pair_div_PREC(REAL2(numerator, 0.0_r), tg_two_sum_PREC(1.0_r, power)).x;
}
