// a * b without loss, no fused multiply-add: x is the rounded product, y what rounding lost.
// Source: Dekker, A floating-point technique for extending the available precision, 1971.
vec2 tg_two_prod_f32(float a, float b) {
  precise float a_scaled = 4097.0f * a;
  precise float a_high = a_scaled - (a_scaled - a);
  precise float a_low = a - a_high;
  precise float b_scaled = 4097.0f * b;
  precise float b_high = b_scaled - (b_scaled - b);
  precise float b_low = b - b_high;
  precise float product = a * b;
  precise float crossed = a_high * b_low + a_low * b_high;
  precise float error = ((a_high * b_high - product) + crossed) + a_low * b_low;
  return vec2(product, error);
}
