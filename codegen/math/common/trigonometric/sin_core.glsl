// sin(r + rest) as an unevaluated sum, for |r| <= pi/4 and a tiny rest.
// Minimax polynomial of (sin(r) - r) / r^3 in r^2 (Remez).
// needs: sin_poly
REAL2 tg_sin_core_PREC(REAL r, REAL rest) {
  precise REAL z = r * r;
  precise REAL tail = r * z * tg_sin_poly_PREC(z) + (rest - 0.5_r * z * rest);
  return REAL2(r, tail);
}
