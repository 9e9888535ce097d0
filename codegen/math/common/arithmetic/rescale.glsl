// A power of two that moves a > 0 away from both ends of the range of exponents.
// needs: rescale_range
REAL tg_rescale_PREC(REAL a) {
  REAL up = a < tg_rescale_below_PREC ? tg_rescale_up_PREC : 1.0_r;
  return a > tg_rescale_above_PREC ? tg_rescale_down_PREC : up;
}
