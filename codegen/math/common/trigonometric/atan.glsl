// Inverse tangent.
// needs: atan_core pi pair_add is_nan copysign atan_range small
REAL tg_atan_PREC(REAL x) {
  REAL magnitude = abs(x);
  REAL bounded = magnitude > tg_atan_max_PREC ? tg_atan_max_PREC : magnitude;
  bool steep = bounded > 1.0_r;
  REAL2 angle = tg_atan_core_PREC(steep ? 1.0_r : bounded, steep ? bounded : 1.0_r);
  REAL y = steep ? tg_pair_add_PREC(tg_half_pi_PREC, REAL2(-angle.x, -angle.y)).x : angle.x;
  bool itself = magnitude < tg_small_PREC || tg_is_nan_PREC(x);
  return itself ? x : tg_copysign_PREC(y, x);
}
