// (cdf(x) - 1/2) / x of the normal distribution as a function of z = x^2 <= 0.65^2.
// Interpolation at Chebyshev nodes.
double tg_cdf_near_poly_f64(double z) {
  precise double p = 2.0690770970671442e-09lf;
  p = p * z - 4.106737686794913e-08lf;
  p = p * z + 6.659018515565385e-07lf;
  p = p * z - 9.44463953233107e-06lf;
  p = p * z + 0.0001154346851769428lf;
  p = p * z - 0.0011873282152804403lf;
  p = p * z + 0.009973557010027596lf;
  p = p * z - 0.06649038006690532lf;
  p = p * z + 0.3989422804014327lf;
  return p;
}
