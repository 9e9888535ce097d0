// Cumulative distribution of the standard normal law, erfc(-x / sqrt(2)) / 2, within 4 ulp: its lower
// tail is exp(-u^2 / 2) g(u), u = |x|, without a branch. u^2 is h^2 + (u - h) (u + h), where h has the
// upper half of the digits of u and an exact square; g is a polynomial of u / (u + k) over u + k.
// needs: cdf_tail_poly cdf_range nearest ln2 exp_short_poly exp2i
float tg_normal_cdf_f32(float x) {
  float magnitude = abs(x);
  float u = magnitude > tg_cdf_max_f32 ? tg_cdf_max_f32 : magnitude;
  float h = uintBitsToFloat(floatBitsToUint(u) & 0xfffff000u);
  precise float rest = (u - h) * (u + h);
  precise float square = -0.5f * (h * h);
  precise float k = tg_nearest_f32(square * tg_inverse_ln2_f32);
  precise float r = fma(k, -tg_ln2_short_f32, square);
  r = fma(k, -tg_ln2_rest_f32, r);
  r = fma(rest, -0.5f, r);
  precise float power = fma(r * r, tg_exp_short_poly_f32(r), r);  // exp(r) - 1
  precise float inverse = 1.0f / (u + tg_cdf_tail_f32);
  precise float g = tg_cdf_tail_poly_f32(u * inverse) * inverse;
  // 2^(k + 64), then 2^-64: results below the normal range round once.
  precise float tail = fma(g, power, g) * tg_exp2i_f32(int(k) + 64) * 5.42101086e-20f;
  precise float upper = 1.0f - tail;
  return x < 0.0f ? tail : upper;
}
