// cos(r + rest) as an unevaluated sum, for |r| <= pi/4 and a tiny rest.
// Minimax polynomial of (cos(r) - 1 + r^2 / 2) / r^4 in r^2 (Remez).
// needs: cos_poly
REAL2 tg_cos_core_PREC(REAL r, REAL rest) {
  precise REAL z = r * r;
  precise REAL h = 0.5_r * z;
  precise REAL w = 1.0_r - h;
  precise REAL tail = ((1.0_r - w) - h) + (z * z * tg_cos_poly_PREC(z) - r * rest);
  return REAL2(w, tail);
}
