// x = m 2^k for finite x > 0 with sqrt(1/2) <= m < sqrt(2): returns m and k.
// The offset 0x3f3504f3 is sqrt(1/2), so that the carry moves k to the nearer power of two.
vec2 tg_log_split_f32(float x) {
  bool subnormal = x < 1.17549435e-38f;
  precise float normal = subnormal ? x * 33554432.0f : x;
  uint bits = floatBitsToUint(normal) + (0x3f800000u - 0x3f3504f3u);
  int k = int(bits >> 23) - (subnormal ? 127 + 25 : 127);
  float m = uintBitsToFloat((bits & 0x007fffffu) + 0x3f3504f3u);
  return vec2(m, float(k));
}
