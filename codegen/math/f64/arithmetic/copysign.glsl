// The magnitude x >= +0, or NaN, with the sign of s. Not (x & ~mask) | (s & mask): where the result
// is chosen against x or s, LLVM 14 to 16 compile that selection of bits wrongly for AVX-512.
double tg_copysign_f64(double x, double s) {
  uvec2 bits = unpackDouble2x32(x);
  uint sign = unpackDouble2x32(s).y & 0x80000000u;
  return packDouble2x32(uvec2(bits.x, bits.y ^ sign));
}
