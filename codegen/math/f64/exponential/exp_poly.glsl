// (exp(r) - 1 - r) / r^2 for |r| <= ln 2 / 2.
// Minimax polynomial (Remez).
double tg_exp_poly_f64(double r) {
  precise double p = 2.0926912943937835e-9lf;
  p = p * r + 2.5112228097273935e-8lf;
  p = p * r + 2.755723345005603e-7lf;
  p = p * r + 2.755723426979489e-6lf;
  p = p * r + 2.480158737365951e-5lf;
  p = p * r + 0.000198412698970267lf;
  p = p * r + 0.0013888888888858454lf;
  p = p * r + 0.008333333333316751lf;
  p = p * r + 0.04166666666666673lf;
  p = p * r + 0.16666666666666685lf;
  p = p * r + 0.5lf;
  return p;
}
