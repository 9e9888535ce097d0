// exp(r + rest) - 1 as an unevaluated sum, for |r| <= ln 2 / 2 and a tiny rest.
// Minimax polynomial of (exp(r) - 1 - r) / r^2 (Remez).
// needs: fast_two_sum exp_poly
REAL2 tg_exp_core_PREC(REAL r, REAL rest) {
  precise REAL tail = r * r * tg_exp_poly_PREC(r) + (rest + rest * r);
  return tg_fast_two_sum_PREC(r, tail);
}
