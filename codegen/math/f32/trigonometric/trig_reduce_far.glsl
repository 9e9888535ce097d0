// x = z pi/2 + (x + y) with |x + y| <= pi/4 for finite |x| >= 2^10: the sum and z mod 4. The float
// closest to a multiple of pi/2 cancels 30 bits of the fraction.
// Source: Payne & Hanek, Radian reduction for trigonometric functions, 1983.
// needs: trig_window fraction_pair pair_mul pair_scale pi sign_bit
vec3 tg_trig_reduce_far_f32(float x) {
  uint window[3];
  tg_trig_window_f32(x, window);
  bool upper = (window[0] & 0x20000000u) != 0u;  // a fraction of a half or more counts from above
  uint turns = (window[0] >> 30) + (upper ? 1u : 0u);
  uint flip = upper ? 0xffffffffu : 0u;
  uint high = ((window[0] << 2) | (window[1] >> 30)) ^ flip;
  uint middle = ((window[1] << 2) | (window[2] >> 30)) ^ flip;
  uint low = (window[2] << 2) ^ flip;
  vec2 r = tg_pair_mul_f32(tg_fraction_pair_f32(high, middle, low), tg_half_pi_f32);
  bool negative = tg_sign_bit_f32(x);
  r = tg_pair_scale_f32(r, negative != upper ? -1.0f : 1.0f);
  return vec3(r.x, r.y, float((negative ? 4u - turns : turns) & 3u));
}
