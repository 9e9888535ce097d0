// The nearest whole number, ties to even, for |x| < 2^22.
// Adding 1.5 * 2^23 pushes the fraction out of the significand.
float tg_nearest_f32(float x) {
  precise float shifted = x + 12582912.0f;
  precise float whole = shifted - 12582912.0f;
  return whole;
}
