// The magnitude x >= +0, or NaN, with the sign of s. Not (x & ~mask) | (s & mask): where the result
// is chosen against x or s, LLVM 14 to 16 compile that selection of bits wrongly for AVX-512.
float tg_copysign_f32(float x, float s) {
  return uintBitsToFloat(floatBitsToUint(x) ^ (floatBitsToUint(s) & 0x80000000u));
}
