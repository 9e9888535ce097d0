// x = z pi/2 + (x + y) with |x + y| <= pi/4 for finite |x| >= 2^20: the sum and z mod 4. The double
// closest to a multiple of pi/2 cancels 61 bits of the fraction.
// Source: Payne & Hanek, Radian reduction for trigonometric functions, 1983.
// needs: trig_window fraction_pair pair_mul pair_scale pi sign_bit
dvec3 tg_trig_reduce_far_f64(double x) {
  uint window[6];
  tg_trig_window_f64(x, window);
  bool upper = (window[0] & 0x20000000u) != 0u;  // a fraction of a half or more counts from above
  uint turns = (window[0] >> 30) + (upper ? 1u : 0u);
  uint flip = upper ? 0xffffffffu : 0u;
  uint fraction[5];
  for (int i = 0; i < 5; ++i) fraction[i] = ((window[i] << 2) | (window[i + 1] >> 30)) ^ flip;
  dvec2 r = tg_pair_mul_f64(tg_fraction_pair_f64(fraction), tg_half_pi_f64);
  bool negative = tg_sign_bit_f64(x);
  r = tg_pair_scale_f64(r, negative != upper ? -1.0lf : 1.0lf);
  return dvec3(r.x, r.y, double((negative ? 4u - turns : turns) & 3u));
}
