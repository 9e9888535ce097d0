// (cdf(x) - 1/2) / x of the normal distribution as a function of z = x^2 <= 0.65^2.
// Interpolation at Chebyshev nodes.
float tg_cdf_near_poly_f32(float z) {
  precise float p = 0.000105925181f;
  p = p * z - 0.00118386676f;
  p = p * z + 0.00997303799f;
  p = p * z - 0.0664903522f;
  p = p * z + 0.398942292f;
  return p;
}
