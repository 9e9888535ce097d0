// (erf(x) - x) / x as a function of z = x^2 <= 1.
// Minimax polynomial (Remez).
double tg_erf_poly_f64(double z) {
  precise double p = 5.960687365487138e-11lf;
  p = p * z - 1.1374956310600045e-9lf;
  p = p * z + 1.4660328685329812e-8lf;
  p = p * z - 1.6350396185651638e-7lf;
  p = p * z + 1.6461008470897275e-6lf;
  p = p * z - 1.4925595771510586e-5lf;
  p = p * z + 0.00012055331132916607lf;
  p = p * z - 0.0008548326981424113lf;
  p = p * z + 0.0052239776248283985lf;
  p = p * z - 0.02686617064507787lf;
  p = p * z + 0.11283791670954885lf;
  p = p * z - 0.3761263890318375lf;
  p = p * z + 0.1283791670955126lf;
  return p;
}
