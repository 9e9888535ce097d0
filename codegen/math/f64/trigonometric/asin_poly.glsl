// (asin(t) - t) / t^3 as a function of z = t^2 <= 1/4.
// Minimax polynomial (Remez).
double tg_asin_poly_f64(double z) {
  precise double p = 0.0326579051913814lf;
  p = p * z - 0.021045489887585225lf;
  p = p * z + 0.021739856391234633lf;
  p = p * z + 0.0036933162583800572lf;
  p = p * z + 0.010783635956852165lf;
  p = p * z + 0.011398328930609831lf;
  p = p * z + 0.013980888418167341lf;
  p = p * z + 0.017351606749093244lf;
  p = p * z + 0.02237221524939988lf;
  p = p * z + 0.030381942700112075lf;
  p = p * z + 0.0446428571747205lf;
  p = p * z + 0.07499999999970773lf;
  p = p * z + 0.1666666666666676lf;
  return p;
}
