// The magnitude of x with the sign of s.
double tg_copysign_f64(double x, double s) {
  uvec2 bits = unpackDouble2x32(x);
  uint sign = unpackDouble2x32(s).y & 0x80000000u;
  return packDouble2x32(uvec2(bits.x, (bits.y & 0x7fffffffu) | sign));
}
