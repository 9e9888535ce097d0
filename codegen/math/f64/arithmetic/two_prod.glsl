// a * b without loss, no fused multiply-add: x is the rounded product, y what rounding lost.
// Source: Dekker, A floating-point technique for extending the available precision, 1971.
dvec2 tg_two_prod_f64(double a, double b) {
  precise double a_scaled = 134217729.0lf * a;
  precise double a_high = a_scaled - (a_scaled - a);
  precise double a_low = a - a_high;
  precise double b_scaled = 134217729.0lf * b;
  precise double b_high = b_scaled - (b_scaled - b);
  precise double b_low = b - b_high;
  precise double product = a * b;
  precise double crossed = a_high * b_low + a_low * b_high;
  precise double error = ((a_high * b_high - product) + crossed) + a_low * b_low;
  return dvec2(product, error);
}
