// Hyperbolic sine: (t + t / (t + 1)) / 2 with t = exp(|x|) - 1, and exp(|x|) / 2 far out.
// needs: expm1_pair pair_div pair_add exp_reduce exp_core one_plus scale is_nan copysign
// needs: tanh_range cosh_range small
REAL tg_sinh_PREC(REAL x) {
  REAL magnitude = abs(x);
  REAL near = magnitude > tg_tanh_max_PREC ? tg_tanh_max_PREC : magnitude;
  REAL2 t = tg_expm1_pair_PREC(near);
  REAL2 quotient = tg_pair_div_PREC(t, tg_pair_add_PREC(t, REAL2(1.0_r, 0.0_r)));
  precise REAL y = 0.5_r * tg_pair_add_PREC(t, quotient).x;
  if (magnitude > tg_tanh_max_PREC) {
    REAL far = magnitude > tg_cosh_max_PREC ? tg_cosh_max_PREC : magnitude;
    REAL3 reduced = tg_exp_reduce_PREC(far);
    REAL2 core = tg_exp_core_PREC(reduced.x, reduced.y);
    y = tg_scale_PREC(tg_one_plus_PREC(core), int(reduced.z) - 1);
  }
  bool itself = magnitude < tg_small_PREC || tg_is_nan_PREC(x);
  return itself ? x : tg_copysign_PREC(y, x);
}
