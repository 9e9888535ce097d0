// True for NaN, decided on the bits.
bool tg_is_nan_f64(double x) {
  uvec2 bits = unpackDouble2x32(x);
  uint magnitude = bits.y & 0x7fffffffu;
  return magnitude > 0x7ff00000u || (magnitude == 0x7ff00000u && bits.x != 0u);
}
