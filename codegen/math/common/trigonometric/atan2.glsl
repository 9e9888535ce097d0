// Angle of the point (x, y) with the positive x axis, in [-pi, pi]; signed zeros and infinities as
// in C (annex F): atan2(+-0, +0) = +-0, atan2(+-0, -0) = +-pi.
// needs: is_inf rescale atan_core pair_add pi sign_bit is_nan nan copysign atan2_range
REAL tg_atan2_PREC(REAL y, REAL x) {
  REAL ax = abs(x);
  REAL ay = abs(y);
  bool both_infinite = tg_is_inf_PREC(x) && tg_is_inf_PREC(y);
  bool steep = ay > ax;
  REAL large = steep ? ay : ax;
  REAL small = steep ? ax : ay;
  bool trivial = large == 0.0_r || tg_is_inf_PREC(large);
  REAL factor = tg_rescale_PREC(large);
  precise REAL under = trivial ? 1.0_r : large * factor;
  precise REAL over = trivial ? (both_infinite ? 1.0_r : 0.0_r) : small * factor;
  precise REAL bound = tg_atan2_flat_PREC * under;
  bool shallow = over < bound;
  REAL2 angle = tg_atan_core_PREC(shallow ? 0.0_r : over, under);
  if (shallow) {
    // The divisor stays clear of both ends of the range, where devices may flush its reciprocal.
    precise REAL scaled = (small / under) * factor;
    precise REAL direct = over / under;
    angle = REAL2(factor < 1.0_r && !trivial ? scaled : direct, 0.0_r);
  }
  if (steep) angle = tg_pair_add_PREC(tg_half_pi_PREC, REAL2(-angle.x, -angle.y));
  if (tg_sign_bit_PREC(x)) angle = tg_pair_add_PREC(tg_pi_PREC, REAL2(-angle.x, -angle.y));
  bool undefined = tg_is_nan_PREC(x) || tg_is_nan_PREC(y);
  return undefined ? tg_nan_PREC() : tg_copysign_PREC(angle.x, y);
}
