// y 2^k for -191 <= k <= 63, by 2^-64 and 2^(k + 64), so that results below the normal range round once;
// only the last nine bits of k are read.
float tg_scale_small_f32(float y, uint k) {
  precise float scaled = y * 5.42101086e-20f * uintBitsToFloat((k << 23) + 0x5f800000u);
  return scaled;
}
