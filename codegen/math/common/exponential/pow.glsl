// x to the power of y, special values as in C (annex F): pow(x, 0) = pow(1, y) = 1 even for NaN,
// and NaN for a finite negative x with a y that is no whole number.
// needs: pow_magnitude inf nan is_nan copysign
REAL tg_pow_PREC(REAL x, REAL y) {
  REAL magnitude = abs(x);
  bool ordinary = magnitude > 0.0_r && magnitude < tg_inf_PREC();
  REAL steep = (magnitude == 0.0_r) == (y < 0.0_r) ? tg_inf_PREC() : 0.0_r;
  REAL z = ordinary ? tg_pow_magnitude_PREC(magnitude, y) : steep;
  precise REAL half_y = 0.5_r * y;
  bool whole = floor(y) == y;
  bool odd = whole && floor(half_y) != half_y;
  REAL signed_z = odd ? tg_copysign_PREC(z, x) : z;
  bool undefined = x < 0.0_r && ordinary && !whole;
  bool one = x == 1.0_r || y == 0.0_r;
  bool poisoned = undefined || tg_is_nan_PREC(x) || tg_is_nan_PREC(y);
  return one ? 1.0_r : poisoned ? tg_nan_PREC() : signed_z;
}
