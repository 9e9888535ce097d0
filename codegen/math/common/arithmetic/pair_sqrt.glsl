// Square root of an unevaluated sum x + y >= 0; 0 for x = 0.
// Source: Dekker, A floating-point technique for extending the available precision, 1971.
// needs: two_prod fast_two_sum
REAL2 tg_pair_sqrt_PREC(REAL2 a) {
  precise REAL root = sqrt(a.x);
  REAL2 square = tg_two_prod_PREC(root, root);
  precise REAL rest = ((a.x - square.x) - square.y) + a.y;
  precise REAL low = a.x > 0.0_r ? rest / (root + root) : 0.0_r;
  return tg_fast_two_sum_PREC(root, low);
}
