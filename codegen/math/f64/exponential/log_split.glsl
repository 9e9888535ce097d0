// x = m 2^k for finite x > 0 with sqrt(1/2) <= m < sqrt(2): returns m and k.
// The offset 0x3fe6a09e is the upper half of sqrt(1/2): with it the carry selects the nearer power.
dvec2 tg_log_split_f64(double x) {
  bool subnormal = x < 2.2250738585072014e-308lf;
  precise double normal = subnormal ? x * 18014398509481984.0lf : x;
  uvec2 bits = unpackDouble2x32(normal);
  uint high = bits.y + (0x3ff00000u - 0x3fe6a09eu);
  int k = int(high >> 20) - (subnormal ? 1023 + 54 : 1023);
  double m = packDouble2x32(uvec2(bits.x, (high & 0x000fffffu) + 0x3fe6a09eu));
  return dvec2(m, double(k));
}
