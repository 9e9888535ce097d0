// a / b where the device divides well only by numbers up to 2^126, which is all that Vulkan promises:
// a reciprocal of more would be subnormal.
float tg_quotient_f32(float a, float b) {
  float scale = abs(b) > 4.25352959e37 ? 0.25 : 1.0;  // 2^125
  precise float numerator = a * scale;
  precise float denominator = b * scale;
  precise float q = numerator / denominator;
  return q;
}
