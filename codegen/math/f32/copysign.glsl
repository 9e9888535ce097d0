// The magnitude of x with the sign of s.
float tg_copysign_f32(float x, float s) {
  uint sign = floatBitsToUint(s) & 0x80000000u;
  return uintBitsToFloat((floatBitsToUint(x) & 0x7fffffffu) | sign);
}
