// True for both infinities, decided on the bits.
bool tg_is_inf_f64(double x) {
  uvec2 bits = unpackDouble2x32(x);
  return (bits.y & 0x7fffffffu) == 0x7ff00000u && bits.x == 0u;
}
