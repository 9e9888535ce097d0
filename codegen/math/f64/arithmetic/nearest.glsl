// The nearest whole number, ties to even, for |x| < 2^51.
// Adding 1.5 * 2^52 pushes the fraction out of the significand.
double tg_nearest_f64(double x) {
  precise double shifted = x + 6755399441055744.0lf;
  precise double whole = shifted - 6755399441055744.0lf;
  return whole;
}
