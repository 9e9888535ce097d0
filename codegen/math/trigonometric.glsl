//// asin_poly f64
// (asin(t) - t) / t^3 as a function of z = t^2 <= 1/4.
// Minimax polynomial (Remez).
double tg_asin_poly_f64(double z) {
  precise double p = 0.0326579051913814lf;
  p = p * z - 0.021045489887585225lf;
  p = p * z + 0.021739856391234633lf;
  p = p * z + 0.0036933162583800572lf;
  p = p * z + 0.010783635956852165lf;
  p = p * z + 0.011398328930609831lf;
  p = p * z + 0.013980888418167341lf;
  p = p * z + 0.017351606749093244lf;
  p = p * z + 0.02237221524939988lf;
  p = p * z + 0.030381942700112075lf;
  p = p * z + 0.0446428571747205lf;
  p = p * z + 0.07499999999970773lf;
  p = p * z + 0.1666666666666676lf;
  return p;
}

//// asin_poly f32
// (asin(t) - t) / t^3 as a function of z = t^2 <= 1/4.
// Minimax polynomial (Remez).
float tg_asin_poly_f32(float z) {
  precise float p = 0.0375567861f;
  p = p * z + 0.0144092049f;
  p = p * z + 0.0318156518f;
  p = p * z + 0.0445159897f;
  p = p * z + 0.0750050917f;
  p = p * z + 0.166666597f;
  return p;
}

//// asin_core
// asin(sqrt((1 - x) / 2)) as an unevaluated sum, for 1/2 <= x <= 1; acos(x) is twice that.
// Source: Cody & Waite, Software Manual for the Elementary Functions, 1980, ch. 10.
// needs: pair_sqrt asin_poly fast_two_sum
REAL2 tg_asin_core_PREC(REAL x) {
  precise REAL z = 0.5_r * (1.0_r - x);
  REAL2 root = tg_pair_sqrt_PREC(REAL2(z, 0.0_r));
  precise REAL tail = root.y + root.x * (z * tg_asin_poly_PREC(z));
  return tg_fast_two_sum_PREC(root.x, tail);
}

//// pi f64
// pi/2 and pi, each as an unevaluated sum.
const dvec2 tg_half_pi_f64 = dvec2(1.5707963267948966lf, 6.123233995736766e-17lf);
const dvec2 tg_pi_f64 = dvec2(3.141592653589793lf, 1.2246467991473532e-16lf);

//// pi f32
// pi/2 and pi, each as an unevaluated sum.
const vec2 tg_half_pi_f32 = vec2(1.57079637f, -4.37113883e-8f);
const vec2 tg_pi_f32 = vec2(3.14159274f, -8.74227766e-8f);

//// acos
// Inverse cosine; NaN outside of -1 <= x <= 1.
// needs: asin_poly asin_core pair_scale pi pair_add nan is_nan
REAL tg_acos_PREC(REAL x) {
  REAL magnitude = abs(x);
  REAL y;
  if (magnitude < 0.5_r) {
    precise REAL z = x * x;
    precise REAL tail = -x * (z * tg_asin_poly_PREC(z));
    y = tg_pair_add_PREC(tg_half_pi_PREC, REAL2(-x, tail)).x;
  } else {
    REAL2 half_acos = tg_asin_core_PREC(magnitude > 1.0_r ? 1.0_r : magnitude);
    REAL2 minus_acos = tg_pair_scale_PREC(half_acos, -2.0_r);
    REAL left = tg_pair_add_PREC(tg_pi_PREC, minus_acos).x;
    y = x < 0.0_r ? left : -minus_acos.x;
  }
  REAL edge = magnitude > 1.0_r ? tg_nan_PREC() : y;
  return tg_is_nan_PREC(x) ? x : edge;
}

//// asin
// Inverse sine; NaN outside of -1 <= x <= 1.
// needs: asin_poly asin_core pair_scale pi pair_add nan is_nan copysign
REAL tg_asin_PREC(REAL x) {
  REAL magnitude = abs(x);
  REAL y;
  if (magnitude < 0.5_r) {
    precise REAL z = magnitude * magnitude;
    precise REAL inner = magnitude + magnitude * (z * tg_asin_poly_PREC(z));
    y = inner;
  } else {
    REAL2 half_acos = tg_asin_core_PREC(magnitude > 1.0_r ? 1.0_r : magnitude);
    REAL2 minus_acos = tg_pair_scale_PREC(half_acos, -2.0_r);
    y = tg_pair_add_PREC(tg_half_pi_PREC, minus_acos).x;
  }
  REAL edge = magnitude > 1.0_r ? tg_nan_PREC() : tg_copysign_PREC(y, x);
  return tg_is_nan_PREC(x) ? x : edge;
}

//// atan_poly f64
// (atan(t) - t) / t^3 as a function of z = t^2, |t| <= 0.2372.
// Minimax polynomial (Remez).
double tg_atan_poly_f64(double z) {
  precise double p = 0.04721274883422501lf;
  p = p * z - 0.06550860253906522lf;
  p = p * z + 0.07685962426504378lf;
  p = p * z - 0.09090705782546327lf;
  p = p * z + 0.11111107302940543lf;
  p = p * z - 0.14285714246232442lf;
  p = p * z + 0.1999999999980246lf;
  p = p * z - 0.33333333333333lf;
  return p;
}

//// atan_poly f32
// (atan(t) - t) / t^3 as a function of z = t^2, |t| <= 0.2372.
// Minimax polynomial (Remez).
float tg_atan_poly_f32(float z) {
  precise float p = 0.099564679f;
  p = p * z - 0.142326355f;
  p = p * z + 0.199990273f;
  p = p * z - 0.333333284f;
  return p;
}

//// atan_angles f64
// atan(1) and atan(1/2) as unevaluated sums.
const double tg_atan_1_high_f64 = 0.7853981633974483lf;
const double tg_atan_1_low_f64 = 3.061616997868383e-17lf;
const double tg_atan_half_high_f64 = 0.4636476090008061lf;
const double tg_atan_half_low_f64 = 2.2698777452961687e-17lf;

//// atan_angles f32
// atan(1) and atan(1/2) as unevaluated sums.
const float tg_atan_1_high_f32 = 0.785398185f;
const float tg_atan_1_low_f32 = -2.18556941e-8f;
const float tg_atan_half_high_f32 = 0.463647604f;
const float tg_atan_half_low_f32 = 5.01215869e-9f;

//// atan_core
// atan(over / under) as an unevaluated sum, for 0 <= over <= under that are far from the ends of
// the range of exponents: turned by atan(1/2) or atan(1) first, then a minimax polynomial.
// Source: Cody & Waite, Software Manual for the Elementary Functions, 1980, ch. 11.
// needs: two_sum pair_div pair_add atan_poly atan_angles
REAL2 tg_atan_core_PREC(REAL over, REAL under) {
  precise REAL low_bound = 0.236_r * under;
  precise REAL high_bound = 0.7208_r * under;
  bool low = over < low_bound;
  bool high = over > high_bound;
  REAL turn = low ? 0.0_r : high ? 1.0_r : 0.5_r;
  REAL2 angle = REAL2(low ? 0.0_r : high ? tg_atan_1_high_PREC : tg_atan_half_high_PREC,
                      low ? 0.0_r : high ? tg_atan_1_low_PREC : tg_atan_half_low_PREC);
  precise REAL turned_over = -turn * under;
  precise REAL turned_under = turn * over;
  REAL2 sine = tg_two_sum_PREC(over, turned_over);
  REAL2 cosine = tg_two_sum_PREC(under, turned_under);
  REAL2 t = tg_pair_div_PREC(sine, cosine);
  precise REAL z = t.x * t.x;
  precise REAL tail = t.y + t.x * z * tg_atan_poly_PREC(z);
  return tg_pair_add_PREC(angle, REAL2(t.x, tail));
}

//// atan_range f64
// Beyond this bound atan(x) and pi/2 - 1 / x round alike.
const double tg_atan_max_f64 = 1152921504606846976.0lf;

//// atan_range f32
// Beyond this bound atan(x) and pi/2 - 1 / x round alike.
const float tg_atan_max_f32 = 1073741824.0f;

//// atan
// Inverse tangent.
// needs: atan_core pi pair_add is_nan copysign atan_range small
REAL tg_atan_PREC(REAL x) {
  REAL magnitude = abs(x);
  REAL bounded = magnitude > tg_atan_max_PREC ? tg_atan_max_PREC : magnitude;
  bool steep = bounded > 1.0_r;
  REAL2 angle = tg_atan_core_PREC(steep ? 1.0_r : bounded, steep ? bounded : 1.0_r);
  REAL y = steep ? tg_pair_add_PREC(tg_half_pi_PREC, REAL2(-angle.x, -angle.y)).x : angle.x;
  bool itself = magnitude < tg_small_PREC || tg_is_nan_PREC(x);
  return itself ? x : tg_copysign_PREC(y, x);
}

//// atan2_range f64
// Below this ratio atan(r) rounds to r.
const double tg_atan2_flat_f64 = 8.673617379884035e-19lf;

//// atan2_range f32
// Below this ratio atan(r) rounds to r.
const float tg_atan2_flat_f32 = 9.31322575e-10f;

//// atan2
// Angle of the point (x, y) with the positive x axis, in [-pi, pi]; signed zeros and infinities as
// in C (annex F): atan2(+-0, +0) = +-0, atan2(+-0, -0) = +-pi.
// needs: is_inf rescale atan_core pair_add pi sign_bit is_nan nan copysign atan2_range
REAL tg_atan2_PREC(REAL y, REAL x) {
  REAL ax = abs(x);
  REAL ay = abs(y);
  bool both_infinite = tg_is_inf_PREC(x) && tg_is_inf_PREC(y);
  bool steep = ay > ax;
  REAL large = steep ? ay : ax;
  REAL small = steep ? ax : ay;
  bool trivial = large == 0.0_r || tg_is_inf_PREC(large);
  REAL factor = tg_rescale_PREC(large);
  precise REAL under = trivial ? 1.0_r : large * factor;
  precise REAL over = trivial ? (both_infinite ? 1.0_r : 0.0_r) : small * factor;
  precise REAL bound = tg_atan2_flat_PREC * under;
  bool shallow = over < bound;
  REAL2 angle = tg_atan_core_PREC(shallow ? 0.0_r : over, under);
  if (shallow) {
    // The divisor stays clear of both ends of the range, where devices may flush its reciprocal.
    precise REAL scaled = (small / under) * factor;
    precise REAL direct = over / under;
    angle = REAL2(factor < 1.0_r && !trivial ? scaled : direct, 0.0_r);
  }
  if (steep) angle = tg_pair_add_PREC(tg_half_pi_PREC, REAL2(-angle.x, -angle.y));
  if (tg_sign_bit_PREC(x)) angle = tg_pair_add_PREC(tg_pi_PREC, REAL2(-angle.x, -angle.y));
  bool undefined = tg_is_nan_PREC(x) || tg_is_nan_PREC(y);
  return undefined ? tg_nan_PREC() : tg_copysign_PREC(angle.x, y);
}

//// half_pi_parts f64
// 2/pi; pi/2 as three short parts and the rest, so that n times a short part is exact; the range.
const double tg_inverse_half_pi_f64 = 0.6366197723675814lf;
const double tg_half_pi_1_f64 = 1.5707963267341256lf;
const double tg_half_pi_2_f64 = 6.077100506303966e-11lf;
const double tg_half_pi_3_f64 = 2.0222662487111665e-21lf;
const double tg_half_pi_4_f64 = 8.4784276603689e-32lf;
const double tg_trig_near_f64 = 1048576.0lf;

//// half_pi_parts f32
// 2/pi; pi/2 as three short parts and the rest, so that n times a short part is exact; the range.
const float tg_inverse_half_pi_f32 = 0.636619747f;
const float tg_half_pi_1_f32 = 1.57067871f;
const float tg_half_pi_2_f32 = 0.000117614865f;
const float tg_half_pi_3_f32 = 9.92031346e-10f;
const float tg_half_pi_4_f32 = 6.22337197e-14f;
const float tg_trig_near_f32 = 1024.0f;

//// trig_reduce_near
// x = z pi/2 + (x + y) with |x + y| <= pi/4 for |x| <= tg_trig_near: the sum and z, a whole number.
// pi/2 in three short parts whose products with z are exact, and a fourth.
// Source: Cody & Waite, Software Manual for the Elementary Functions, 1980, ch. 8.
// needs: nearest two_sum fast_two_sum half_pi_parts
REAL3 tg_trig_reduce_near_PREC(REAL x) {
  precise REAL quotient = x * tg_inverse_half_pi_PREC;
  REAL n = tg_nearest_PREC(quotient);
  precise REAL first = x - n * tg_half_pi_1_PREC;
  precise REAL product = n * tg_half_pi_2_PREC;
  REAL2 second = tg_two_sum_PREC(first, -product);
  precise REAL small = n * tg_half_pi_3_PREC;
  REAL2 third = tg_two_sum_PREC(second.x, -small);
  precise REAL low = (second.y + third.y) - n * tg_half_pi_4_PREC;
  REAL2 r = tg_fast_two_sum_PREC(third.x, low);
  return REAL3(r.x, r.y, n);
}

//// two_over_pi f64
// The bits of 2/pi behind the binary point, 32 to a word, after two words of zeros: word `at`.
// Choices compile in a fraction of the time that software devices take for an array.
uint tg_two_over_pi_f64(int at) {
  uvec4 four = at < 4    ? uvec4(0x00000000u, 0x00000000u, 0xa2f9836eu, 0x4e441529u)
               : at < 8  ? uvec4(0xfc2757d1u, 0xf534ddc0u, 0xdb629599u, 0x3c439041u)
               : at < 12 ? uvec4(0xfe5163abu, 0xdebbc561u, 0xb7246e3au, 0x424dd2e0u)
               : at < 16 ? uvec4(0x06492eeau, 0x09d1921cu, 0xfe1deb1cu, 0xb129a73eu)
               : at < 20 ? uvec4(0xe88235f5u, 0x2ebb4484u, 0xe99c7026u, 0xb45f7e41u)
               : at < 24 ? uvec4(0x3991d639u, 0x835339f4u, 0x9c845f8bu, 0xbdf9283bu)
               : at < 28 ? uvec4(0x1ff897ffu, 0xde05980fu, 0xef2f118bu, 0x5a0a6d1fu)
               : at < 32 ? uvec4(0x6d367ecfu, 0x27cb09b7u, 0x4f463f66u, 0x9e5fea2du)
               : at < 36 ? uvec4(0x7527bac7u, 0xebe5f17bu, 0x3d0739f7u, 0x8a5292eau)
                         : uvec4(0x6bfb5fb1u, 0x1f8d5d08u, 0x56033046u, 0x00000000u);
  bool odd = (at & 1) != 0;
  return (at & 2) == 0 ? (odd ? four.y : four.x) : (odd ? four.w : four.z);
}

//// two_over_pi f32
// The bits of 2/pi behind the binary point, 32 to a word, after two words of zeros: word `at`.
// Choices compile in a fraction of the time that software devices take for an array.
uint tg_two_over_pi_f32(int at) {
  uvec4 four = at < 4    ? uvec4(0x00000000u, 0x00000000u, 0xa2f9836eu, 0x4e441529u)
               : at < 8  ? uvec4(0xfc2757d1u, 0xf534ddc0u, 0xdb629599u, 0x3c439041u)
                         : uvec4(0xfe5163abu, 0xdebbc561u, 0xb7246e3au, 0x00000000u);
  bool odd = (at & 1) != 0;
  return (at & 2) == 0 ? (odd ? four.y : four.x) : (odd ? four.w : four.z);
}

//// trig_window f64
// |x| 2/pi modulo 4 for finite |x| >= 2^20, as 192 bits: two before the binary point, then the
// fraction. x = M 2^e with a whole M of 53 bits; the seven words of 2/pi that matter start at a bit
// that e selects, so that the product of 224 bits loses only multiples of 4.
// Source: Payne & Hanek, Radian reduction for trigonometric functions, 1983.
// needs: two_over_pi
void tg_trig_window_f64(double x, out uint window[6]) {
  uvec2 bits = unpackDouble2x32(x);
  int start = int((bits.y >> 20) & 0x7ffu) - 1013;
  int first = start >> 5;
  uint shift = uint(start) & 31u;
  uint m_low = bits.x;
  uint m_high = (bits.y & 0x000fffffu) | 0x00100000u;

  uint product[7];  // lowest word first
  for (int k = 0; k < 7; ++k) product[k] = 0u;
  uint carry = 0u;
  uint carry_over = 0u;
  uint previous = 0u;
  for (int at = first + 6; at >= first; --at) {
    uint word = tg_two_over_pi_f64(at);
    uint a_high, a_low, b_high, b_low;
    umulExtended(m_low, word, a_high, a_low);
    umulExtended(m_high, previous, b_high, b_low);
    uint sum = carry + a_low;
    uint total = sum + b_low;
    uint over = (sum < a_low ? 1u : 0u) + (total < b_low ? 1u : 0u);
    uint high = carry_over + a_high;
    uint higher = high + b_high;
    carry = higher + over;
    carry_over = (high < a_high ? 1u : 0u) + (higher < b_high ? 1u : 0u) + (carry < over ? 1u : 0u);
    for (int k = 0; k < 6; ++k) product[k] = product[k + 1];
    product[6] = total;
    previous = word;
  }
  for (int i = 0; i < 6; ++i) {
    uint above = product[6 - i];
    uint below = product[5 - i];
    window[i] = shift == 0u ? above : (above << shift) | (below >> (32u - shift));
  }
}

//// trig_window f32
// |x| 2/pi modulo 4 for finite |x| >= 2^10, as 96 bits: two before the binary point, then the
// fraction. x = M 2^e with a whole M of 24 bits; the four words of 2/pi that matter start at a bit
// that e selects, so that the product of 128 bits loses only multiples of 4.
// Source: Payne & Hanek, Radian reduction for trigonometric functions, 1983.
// needs: two_over_pi
void tg_trig_window_f32(float x, out uint window[3]) {
  uint bits = floatBitsToUint(x);
  int start = int((bits >> 23) & 0xffu) - 88;
  int first = start >> 5;
  uint shift = uint(start) & 31u;
  uint m = (bits & 0x007fffffu) | 0x00800000u;

  uint product[4];  // lowest word first
  for (int k = 0; k < 4; ++k) product[k] = 0u;
  uint carry = 0u;
  for (int at = first + 3; at >= first; --at) {
    uint high, low;
    umulExtended(m, tg_two_over_pi_f32(at), high, low);
    for (int k = 0; k < 3; ++k) product[k] = product[k + 1];
    product[3] = low + carry;
    carry = high + (product[3] < low ? 1u : 0u);
  }
  for (int i = 0; i < 3; ++i) {
    uint above = product[3 - i];
    uint below = product[2 - i];
    window[i] = shift == 0u ? above : (above << shift) | (below >> (32u - shift));
  }
}

//// fraction_pair f64
// A fraction of 160 bits, highest word first and at most 64 of them zeros in front, as an
// unevaluated sum.
// needs: fast_two_sum pair_scale exp2i
dvec2 tg_fraction_pair_f64(uint fraction[5]) {
  int exponent = 0;
  for (int i = 0; i < 2; ++i) {
    if (fraction[0] == 0u) {
      for (int k = 0; k < 4; ++k) fraction[k] = fraction[k + 1];
      fraction[4] = 0u;
      exponent -= 32;
    }
  }
  uint zeros = uint(31 - findMSB(fraction[0]));
  if (zeros > 0u) {
    for (int i = 0; i < 3; ++i) {
      fraction[i] = (fraction[i] << zeros) | (fraction[i + 1] >> (32u - zeros));
    }
    exponent -= int(zeros);
  }
  precise double high = double(fraction[0]) * 2.3283064365386963e-10lf;
  precise double middle = double(fraction[1]) * 5.421010862427522e-20lf;
  precise double low = double(fraction[2]) * 1.262177448353619e-29lf;
  dvec2 sum = tg_fast_two_sum_f64(high, middle);
  precise double rest = sum.y + low;
  return tg_pair_scale_f64(dvec2(sum.x, rest), tg_exp2i_f64(exponent));
}

//// fraction_pair f32
// A fraction of 96 bits, highest word first and at most 32 of them zeros in front, as an
// unevaluated sum of two numbers of 24 bits.
// needs: pair_scale exp2i
vec2 tg_fraction_pair_f32(uint high, uint middle, uint low) {
  int exponent = 0;
  if (high == 0u) {
    high = middle;
    middle = low;
    low = 0u;
    exponent -= 32;
  }
  uint zeros = uint(31 - findMSB(high));
  if (zeros > 0u) {
    high = (high << zeros) | (middle >> (32u - zeros));
    middle = (middle << zeros) | (low >> (32u - zeros));
    exponent -= int(zeros);
  }
  precise float head = float(high >> 8) * 5.96046448e-8f;
  precise float rest = float(((high & 0xffu) << 16) | (middle >> 16)) * 3.55271368e-15f;
  return tg_pair_scale_f32(vec2(head, rest), tg_exp2i_f32(exponent));
}

//// trig_reduce_far f64
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

//// trig_reduce_far f32
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

//// trig_reduce
// x = z pi/2 + (x + y) with |x + y| <= pi/4: the sum and a whole z, right modulo 4; anything for
// infinity and NaN.
// needs: trig_reduce_near trig_reduce_far is_nan is_inf half_pi_parts
REAL3 tg_trig_reduce_PREC(REAL x) {
  if (abs(x) <= tg_trig_near_PREC) return tg_trig_reduce_near_PREC(x);
  return tg_trig_reduce_far_PREC(tg_is_nan_PREC(x) || tg_is_inf_PREC(x) ? tg_trig_near_PREC : x);
}

//// sin_poly f64
// (sin(r) - r) / r^3 as a function of z = r^2, |r| <= pi/4.
// Minimax polynomial (Remez).
double tg_sin_poly_f64(double z) {
  precise double p = -7.578770323747694e-13lf;
  p = p * z + 1.605836808539874e-10lf;
  p = p * z - 2.505210492303975e-8lf;
  p = p * z + 2.755731921423466e-6lf;
  p = p * z - 0.00019841269841255153lf;
  p = p * z + 0.008333333333333323lf;
  p = p * z - 0.16666666666666666lf;
  return p;
}

//// sin_poly f32
// (sin(r) - r) / r^3 as a function of z = r^2, |r| <= pi/4.
// Minimax polynomial (Remez).
float tg_sin_poly_f32(float z) {
  precise float p = 2.71831505e-6f;
  p = p * z - 0.000198393347f;
  p = p * z + 0.00833332911f;
  p = p * z - 0.166666672f;
  return p;
}

//// sin_core
// sin(r + rest) as an unevaluated sum, for |r| <= pi/4 and a tiny rest.
// Minimax polynomial of (sin(r) - r) / r^3 in r^2 (Remez).
// needs: sin_poly
REAL2 tg_sin_core_PREC(REAL r, REAL rest) {
  precise REAL z = r * r;
  precise REAL tail = r * z * tg_sin_poly_PREC(z) + (rest - 0.5_r * z * rest);
  return REAL2(r, tail);
}

//// cos_poly f64
// (cos(r) - 1 + z / 2) / z^2 as a function of z = r^2, |r| <= pi/4.
// Minimax polynomial (Remez).
double tg_cos_poly_f64(double z) {
  precise double p = -1.1359765981060764e-11lf;
  p = p * z + 2.0875725710137468e-9lf;
  p = p * z - 2.7557314371722e-7lf;
  p = p * z + 2.480158728955604e-5lf;
  p = p * z - 0.0013888888888874257lf;
  p = p * z + 0.0416666666666666lf;
  return p;
}

//// cos_poly f32
// (cos(r) - 1 + z / 2) / z^2 as a function of z = r^2, |r| <= pi/4.
// Minimax polynomial (Remez).
float tg_cos_poly_f32(float z) {
  precise float p = 2.44385519e-5f;
  p = p * z - 0.00138873688f;
  p = p * z + 0.0416666456f;
  return p;
}

//// cos_core
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

//// cos_reduced
// Cosine of x from its parts by trig_reduce.
// needs: sin_core cos_core is_nan is_inf nan
REAL tg_cos_reduced_PREC(REAL x, REAL3 reduced) {
  int quarter = int(reduced.z) & 3;
  REAL2 s = tg_sin_core_PREC(reduced.x, reduced.y);
  REAL2 c = tg_cos_core_PREC(reduced.x, reduced.y);
  precise REAL y = (quarter & 1) == 0 ? c.x + c.y : s.x + s.y;
  REAL turned = quarter == 1 || quarter == 2 ? -y : y;
  bool undefined = tg_is_nan_PREC(x) || tg_is_inf_PREC(x);
  return undefined ? tg_nan_PREC() : turned;
}

//// cos
// Cosine of x radians over the whole range.
// needs: trig_reduce cos_reduced
REAL tg_cos_PREC(REAL x) {
  return tg_cos_reduced_PREC(x, tg_trig_reduce_PREC(x));
}

//// cos_near
// The same for |x| <= 2 pi, without the code for far arguments.
// needs: trig_reduce_near cos_reduced
REAL tg_cos_near_PREC(REAL x) {
  return tg_cos_reduced_PREC(x, tg_trig_reduce_near_PREC(x));
}

//// sin
// Sine of x radians over the whole range.
// needs: trig_reduce sin_core cos_core is_nan is_inf nan small
REAL tg_sin_PREC(REAL x) {
  REAL3 reduced = tg_trig_reduce_PREC(x);
  int quarter = int(reduced.z) & 3;
  REAL2 s = tg_sin_core_PREC(reduced.x, reduced.y);
  REAL2 c = tg_cos_core_PREC(reduced.x, reduced.y);
  precise REAL y = (quarter & 1) == 0 ? s.x + s.y : c.x + c.y;
  REAL turned = quarter >= 2 ? -y : y;
  bool undefined = tg_is_nan_PREC(x) || tg_is_inf_PREC(x);
  return undefined ? tg_nan_PREC() : abs(x) < tg_small_PREC ? x : turned;
}

//// tan
// Tangent of x radians over the whole range: sine over cosine, both in two parts.
// needs: trig_reduce sin_core cos_core fast_two_sum pair_div is_nan is_inf nan small
REAL tg_tan_PREC(REAL x) {
  REAL3 reduced = tg_trig_reduce_PREC(x);
  bool even = (int(reduced.z) & 1) == 0;
  REAL2 s = tg_sin_core_PREC(reduced.x, reduced.y);
  REAL2 c = tg_cos_core_PREC(reduced.x, reduced.y);
  s = tg_fast_two_sum_PREC(s.x, s.y);
  c = tg_fast_two_sum_PREC(c.x, c.y);
  REAL2 over = REAL2(even ? s.x : -c.x, even ? s.y : -c.y);
  REAL2 under = REAL2(even ? c.x : s.x, even ? c.y : s.y);
  REAL y = tg_pair_div_PREC(over, under).x;
  bool undefined = tg_is_nan_PREC(x) || tg_is_inf_PREC(x);
  return undefined ? tg_nan_PREC() : abs(x) < tg_small_PREC ? x : y;
}
