//// two_prod f64
// a * b without loss, no fused multiply-add: x is the rounded product, y what rounding lost.
// Source: Dekker, A floating-point technique for extending the available precision, 1971.
dvec2 tg_two_prod_f64(double a, double b) {
  precise double a_scaled = 134217729.0lf * a;
  precise double a_high = a_scaled - (a_scaled - a);
  precise double a_low = a - a_high;
  precise double b_scaled = 134217729.0lf * b;
  precise double b_high = b_scaled - (b_scaled - b);
  precise double b_low = b - b_high;
  precise double product = a * b;
  precise double crossed = a_high * b_low + a_low * b_high;
  precise double error = ((a_high * b_high - product) + crossed) + a_low * b_low;
  return dvec2(product, error);
}

//// two_prod f32
// a * b without loss, no fused multiply-add: x is the rounded product, y what rounding lost.
// Source: Dekker, A floating-point technique for extending the available precision, 1971.
vec2 tg_two_prod_f32(float a, float b) {
  precise float a_scaled = 4097.0f * a;
  precise float a_high = a_scaled - (a_scaled - a);
  precise float a_low = a - a_high;
  precise float b_scaled = 4097.0f * b;
  precise float b_high = b_scaled - (b_scaled - b);
  precise float b_low = b - b_high;
  precise float product = a * b;
  precise float crossed = a_high * b_low + a_low * b_high;
  precise float error = ((a_high * b_high - product) + crossed) + a_low * b_low;
  return vec2(product, error);
}

//// scale
// x times 2 to the power of k in two steps, so that k may leave the range of exponents twofold.
// Rounds once, in the second step, for 1/2 <= |x| < 2 and results below the normal range.
// needs: exp2i
REAL tg_scale_PREC(REAL x, int k) {
  int half_k = k >> 1;
  precise REAL y = x * tg_exp2i_PREC(half_k) * tg_exp2i_PREC(k - half_k);
  return y;
}

//// inf f64
// Positive infinity.
double tg_inf_f64() { return packDouble2x32(uvec2(0u, 0x7ff00000u)); }

//// inf f32
// Positive infinity.
float tg_inf_f32() { return uintBitsToFloat(0x7f800000u); }

//// copysign f64
// The magnitude x >= +0, or NaN, with the sign of s. Not (x & ~mask) | (s & mask): where the result
// is chosen against x or s, LLVM 14 to 16 compile that selection of bits wrongly for AVX-512.
double tg_copysign_f64(double x, double s) {
  uvec2 bits = unpackDouble2x32(x);
  uint sign = unpackDouble2x32(s).y & 0x80000000u;
  return packDouble2x32(uvec2(bits.x, bits.y ^ sign));
}

//// copysign f32
// The magnitude x >= +0, or NaN, with the sign of s. Not (x & ~mask) | (s & mask): where the result
// is chosen against x or s, LLVM 14 to 16 compile that selection of bits wrongly for AVX-512.
float tg_copysign_f32(float x, float s) {
  return uintBitsToFloat(floatBitsToUint(x) ^ (floatBitsToUint(s) & 0x80000000u));
}

//// cbrt_poly f64
// Cube root of 1/2 <= z <= 3/2, roughly.
// Minimax polynomial (Remez).
double tg_cbrt_poly_f64(double z) {
  precise double p = -0.010450347214725708lf;
  p = p * z + 0.0851740830190736lf;
  p = p * z - 0.2985951991997004lf;
  p = p * z + 0.7162227189331752lf;
  p = p * z + 0.507659022286262lf;
  return p;
}

//// cbrt_poly f32
// Cube root of 1/2 <= z <= 3/2, roughly.
// Minimax polynomial (Remez).
float tg_cbrt_poly_f32(float z) {
  precise float p = -0.0104503473f;
  p = p * z + 0.0851740837f;
  p = p * z - 0.29859519f;
  p = p * z + 0.716222703f;
  p = p * z + 0.507659018f;
  return p;
}

//// cbrt_roots f64
// Cube roots of 2 and 4.
const double tg_cbrt_2_f64 = 1.2599210498948732lf;
const double tg_cbrt_4_f64 = 1.5874010519681996lf;

//// cbrt_roots f32
// Cube roots of 2 and 4.
const float tg_cbrt_2_f32 = 1.25992107f;
const float tg_cbrt_4_f32 = 1.58740103f;

//// cbrt
// Cube root: a polynomial for the root of the significand, one step of Halley, one of Newton with
// the remainder in two parts. Source: Muller, Elementary Functions, 3rd ed., ch. 5.
// needs: log_split two_prod scale inf copysign cbrt_poly cbrt_roots
REAL tg_cbrt_PREC(REAL x) {
  REAL magnitude = abs(x);
  bool ordinary = magnitude > 0.0_r && magnitude < tg_inf_PREC();
  REAL2 split = tg_log_split_PREC(ordinary ? magnitude : 1.0_r);
  int k = int(split.y) + 3 * 400;
  int third = k / 3;
  int left = k - 3 * third;
  precise REAL m = split.x * (left == 0 ? 1.0_r : left == 1 ? 2.0_r : 4.0_r);
  REAL root_of_power = left == 0 ? 1.0_r : left == 1 ? tg_cbrt_2_PREC : tg_cbrt_4_PREC;
  precise REAL y = tg_cbrt_poly_PREC(split.x) * root_of_power;
  precise REAL cube = y * y * y;
  y = y * ((cube + (m + m)) / ((cube + cube) + m));
  REAL2 square = tg_two_prod_PREC(y, y);
  REAL2 full = tg_two_prod_PREC(square.x, y);
  precise REAL rest = ((m - full.x) - full.y) - square.y * y;
  y = y + rest / (3.0_r * square.x);
  REAL root = tg_scale_PREC(y, third - 400);
  return ordinary ? tg_copysign_PREC(root, x) : x;
}

//// fast_two_sum
// a + b without loss for |a| >= |b|: x is the rounded sum, y what rounding lost.
// Source: Dekker, A floating-point technique for extending the available precision, 1971.
REAL2 tg_fast_two_sum_PREC(REAL a, REAL b) {
  precise REAL sum = a + b;
  precise REAL error = b - (sum - a);
  return REAL2(sum, error);
}

//// rescale_range f64
// Thresholds and factors that keep squares and quotients away from overflow and underflow:
// 2^500, 2^-500, 2^600, 2^-600.
const double tg_rescale_above_f64 = 3.273390607896142e150lf;
const double tg_rescale_below_f64 = 3.054936363499605e-151lf;
const double tg_rescale_up_f64 = 4.149515568880993e180lf;
const double tg_rescale_down_f64 = 2.409919865102884e-181lf;

//// rescale_range f32
// Thresholds and factors that keep squares and quotients away from overflow and underflow:
// 2^40, 2^-40, 2^100, 2^-84.
const float tg_rescale_above_f32 = 1099511627776.0f;
const float tg_rescale_below_f32 = 9.09494702e-13f;
const float tg_rescale_up_f32 = 1.2676506e+30f;
const float tg_rescale_down_f32 = 5.16987883e-26f;

//// rescale
// A power of two that moves a > 0 away from both ends of the range of exponents.
// needs: rescale_range
REAL tg_rescale_PREC(REAL a) {
  REAL up = a < tg_rescale_below_PREC ? tg_rescale_up_PREC : 1.0_r;
  return a > tg_rescale_above_PREC ? tg_rescale_down_PREC : up;
}

//// two_sum
// a + b without loss: x is the rounded sum, y what rounding lost.
// Source: Knuth, The Art of Computer Programming, vol. 2, 4.2.2, theorem B.
REAL2 tg_two_sum_PREC(REAL a, REAL b) {
  precise REAL sum = a + b;
  precise REAL part = sum - a;
  precise REAL error = (a - (sum - part)) + (b - part);
  return REAL2(sum, error);
}

//// pair_add
// Sum of two unevaluated sums x + y.
// Source: Dekker, A floating-point technique for extending the available precision, 1971.
// needs: two_sum fast_two_sum
REAL2 tg_pair_add_PREC(REAL2 a, REAL2 b) {
  REAL2 sum = tg_two_sum_PREC(a.x, b.x);
  precise REAL low = sum.y + (a.y + b.y);
  return tg_fast_two_sum_PREC(sum.x, low);
}

//// pair_sqrt
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

//// is_inf f64
// True for both infinities, decided on the bits.
bool tg_is_inf_f64(double x) {
  uvec2 bits = unpackDouble2x32(x);
  return (bits.y & 0x7fffffffu) == 0x7ff00000u && bits.x == 0u;
}

//// is_inf f32
// True for both infinities, decided on the bits.
bool tg_is_inf_f32(float x) { return (floatBitsToUint(x) & 0x7fffffffu) == 0x7f800000u; }

//// is_nan f64
// True for NaN, decided on the bits.
bool tg_is_nan_f64(double x) {
  uvec2 bits = unpackDouble2x32(x);
  uint magnitude = bits.y & 0x7fffffffu;
  return magnitude > 0x7ff00000u || (magnitude == 0x7ff00000u && bits.x != 0u);
}

//// is_nan f32
// True for NaN, decided on the bits.
bool tg_is_nan_f32(float x) { return (floatBitsToUint(x) & 0x7fffffffu) > 0x7f800000u; }

//// nan f64
// A quiet NaN.
double tg_nan_f64() { return packDouble2x32(uvec2(0u, 0x7ff80000u)); }

//// nan f32
// A quiet NaN.
float tg_nan_f32() { return uintBitsToFloat(0x7fc00000u); }

//// hypot
// sqrt(x^2 + y^2) without overflow or underflow on the way; infinite if one operand is.
// needs: rescale pair_add two_prod pair_sqrt is_inf is_nan inf nan
REAL tg_hypot_PREC(REAL x, REAL y) {
  REAL ax = abs(x);
  REAL ay = abs(y);
  REAL large = ax > ay ? ax : ay;
  REAL small = ax > ay ? ay : ax;
  REAL factor = tg_rescale_PREC(large);
  precise REAL a = large * factor;
  precise REAL b = small * factor;
  REAL2 sum = tg_pair_add_PREC(tg_two_prod_PREC(a, a), tg_two_prod_PREC(b, b));
  precise REAL root = tg_pair_sqrt_PREC(sum).x / factor;
  bool infinite = tg_is_inf_PREC(x) || tg_is_inf_PREC(y);
  bool undefined = tg_is_nan_PREC(x) || tg_is_nan_PREC(y);
  return infinite ? tg_inf_PREC() : undefined ? tg_nan_PREC() : root;
}

//// sign_bit f64
// True if the sign bit of x is set, also of -0.
bool tg_sign_bit_f64(double x) { return (unpackDouble2x32(x).y & 0x80000000u) != 0u; }

//// sign_bit f32
// True if the sign bit of x is set, also of -0.
bool tg_sign_bit_f32(float x) { return (floatBitsToUint(x) & 0x80000000u) != 0u; }

//// max
// The larger operand; NaN if either is, and -0 is less than +0.
// Source: IEEE 754-2019, 9.6, maximum.
// needs: is_nan sign_bit nan
REAL tg_max_PREC(REAL a, REAL b) {
  bool undefined = tg_is_nan_PREC(a) || tg_is_nan_PREC(b);
  bool first = a > b || (a == b && !tg_sign_bit_PREC(a));
  return undefined ? tg_nan_PREC() : first ? a : b;
}

//// min
// The smaller operand; NaN if either is, and -0 is less than +0.
// Source: IEEE 754-2019, 9.6, minimum.
// needs: is_nan sign_bit nan
REAL tg_min_PREC(REAL a, REAL b) {
  bool undefined = tg_is_nan_PREC(a) || tg_is_nan_PREC(b);
  bool first = a < b || (a == b && tg_sign_bit_PREC(a));
  return undefined ? tg_nan_PREC() : first ? a : b;
}

//// mod_bits f64
// Bits of quotient that the remainder gets from one division.
const int tg_mod_bits_f64 = 48;

//// mod_bits f32
// Bits of quotient that the remainder gets from one division.
const int tg_mod_bits_f32 = 19;

//// remainder
// The exact remainder of a 2^left / m for a and m between a half and two: long division, as many
// bits a step as the quotient holds; a quotient that is off by one is put right.
// needs: two_prod exp2i mod_bits
REAL tg_remainder_PREC(REAL a, REAL m, int left) {
  precise REAL rest = a;
  while (true) {
    precise REAL quotient = rest / m;
    REAL whole = floor(quotient);
    REAL2 product = tg_two_prod_PREC(whole, m);
    rest = (rest - product.x) - product.y;
    if (rest < 0.0_r) rest = rest + m;
    if (rest >= m) rest = rest - m;
    if (left == 0) break;
    int step = min(left, tg_mod_bits_PREC);
    rest = rest * tg_exp2i_PREC(step);
    left -= step;
  }
  return rest;
}

//// mod
// Floored modulus: the exact remainder of a / b moved to the sign of b, which rounds once; a zero
// has the sign of b. NaN for infinite a and for b = 0. All of it happens beside the significand of
// b, so that remainders below the normal range move a result like any other.
// needs: remainder log_split exp2i scale is_inf is_nan nan copysign sign_bit
REAL tg_mod_PREC(REAL a, REAL b) {
  bool undefined = tg_is_inf_PREC(a) || b == 0.0_r || tg_is_nan_PREC(a) || tg_is_nan_PREC(b);
  if (undefined) return tg_nan_PREC();
  if (a == 0.0_r) return tg_copysign_PREC(0.0_r, b);
  bool same = tg_sign_bit_PREC(a) == tg_sign_bit_PREC(b);
  if (tg_is_inf_PREC(b)) return same ? a : b;
  REAL2 dividend = tg_log_split_PREC(abs(a));
  REAL2 divisor = tg_log_split_PREC(abs(b));
  int left = int(dividend.y) - int(divisor.y);
  if (left < 0 && same) return a;
  REAL rest;
  if (left < 0) {
    rest = dividend.x * tg_exp2i_PREC(max(left, -64));
  } else {
    rest = tg_remainder_PREC(dividend.x, divisor.x, left);
  }
  precise REAL moved = divisor.x - rest;
  REAL size = rest == 0.0_r || same ? rest : moved;
  return tg_copysign_PREC(tg_scale_PREC(size, int(divisor.y)), b);
}

//// one_plus
// 1 + (x + y), rounded once, for |x + y| < 1.
// needs: fast_two_sum
REAL tg_one_plus_PREC(REAL2 a) {
  REAL2 sum = tg_fast_two_sum_PREC(1.0_r, a.x);
  precise REAL y = sum.x + (sum.y + a.y);
  return y;
}

//// pair_div
// Quotient of two unevaluated sums x + y; one division, and the exact remainder corrects it.
// Source: Dekker, A floating-point technique for extending the available precision, 1971.
// needs: two_prod fast_two_sum
REAL2 tg_pair_div_PREC(REAL2 a, REAL2 b) {
  precise REAL inverse = 1.0_r / b.x;
  precise REAL quotient = a.x * inverse;
  REAL2 product = tg_two_prod_PREC(quotient, b.x);
  precise REAL rest = ((a.x - product.x) - product.y) + (a.y - quotient * b.y);
  precise REAL low = rest * inverse;
  return tg_fast_two_sum_PREC(quotient, low);
}

//// pair_mul
// Product of two unevaluated sums x + y.
// Source: Dekker, A floating-point technique for extending the available precision, 1971.
// needs: two_prod fast_two_sum
REAL2 tg_pair_mul_PREC(REAL2 a, REAL2 b) {
  REAL2 product = tg_two_prod_PREC(a.x, b.x);
  precise REAL low = product.y + (a.x * b.y + a.y * b.x);
  return tg_fast_two_sum_PREC(product.x, low);
}

//// pair_scale
// An unevaluated sum x + y times a power of two, or the negative of one.
REAL2 tg_pair_scale_PREC(REAL2 a, REAL power) {
  precise REAL high = a.x * power;
  precise REAL low = a.y * power;
  return REAL2(high, low);
}

//// whole f64
// From this magnitude on every number is whole.
const double tg_whole_f64 = 4503599627370496.0lf;

//// whole f32
// From this magnitude on every number is whole.
const float tg_whole_f32 = 8388608.0f;

//// round
// The nearest whole number, ties to even; keeps the sign of zero.
// needs: is_nan copysign whole
REAL tg_round_PREC(REAL x) {
  REAL magnitude = abs(x);
  precise REAL shifted = magnitude + tg_whole_PREC;
  precise REAL whole = shifted - tg_whole_PREC;
  bool itself = magnitude >= tg_whole_PREC || tg_is_nan_PREC(x);
  return itself ? x : tg_copysign_PREC(whole, x);
}

//// rsqrt
// 1 / sqrt(x), each step rounded.
REAL tg_rsqrt_PREC(REAL x) {
  precise REAL root = sqrt(x);
  precise REAL y = 1.0_r / root;
  return y;
}

//// sign
// 1, -1, or x itself where that is a zero or NaN.
// needs: copysign is_nan
REAL tg_sign_PREC(REAL x) {
  REAL unit = tg_copysign_PREC(1.0_r, x);
  bool itself = x == 0.0_r || tg_is_nan_PREC(x);
  return itself ? x : unit;
}

//// trunc
// The nearest whole number towards zero; keeps the sign of zero. Drivers' own trunc fails in f64 on
// some processors: beyond 2^24, and for -0.
// needs: copysign
REAL tg_trunc_PREC(REAL x) {
  return tg_copysign_PREC(floor(abs(x)), x);
}

//// nearest f64
// The nearest whole number, ties to even, for |x| < 2^51.
// Adding 1.5 * 2^52 pushes the fraction out of the significand.
double tg_nearest_f64(double x) {
  precise double shifted = x + 6755399441055744.0lf;
  precise double whole = shifted - 6755399441055744.0lf;
  return whole;
}

//// nearest f32
// The nearest whole number, ties to even, for |x| < 2^22.
// Adding 1.5 * 2^23 pushes the fraction out of the significand.
float tg_nearest_f32(float x) {
  precise float shifted = x + 12582912.0f;
  precise float whole = shifted - 12582912.0f;
  return whole;
}

//// quotient f32
// a / b where the device divides well only by numbers up to 2^126, which is all that Vulkan promises:
// a reciprocal of more would be subnormal.
float tg_quotient_f32(float a, float b) {
  float scale = abs(b) > 4.25352959e37 ? 0.25 : 1.0;  // 2^125
  precise float numerator = a * scale;
  precise float denominator = b * scale;
  precise float q = numerator / denominator;
  return q;
}

//// scale_small f32
// y 2^k for -191 <= k <= 63, by 2^-64 and 2^(k + 64), so that results below the normal range round once;
// only the last nine bits of k are read.
float tg_scale_small_f32(float y, uint k) {
  precise float scaled = y * 5.42101086e-20f * uintBitsToFloat((k << 23) + 0x5f800000u);
  return scaled;
}

//// small f64
// Below this magnitude odd functions x + O(x^3) round to x.
const double tg_small_f64 = 3.725290298461914e-9lf;

//// small f32
// Below this magnitude odd functions x + O(x^3) round to x.
const float tg_small_f32 = 0.000122070312f;

//// two_thirds f64
// 2/3 as an unevaluated sum.
const double tg_two_thirds_high_f64 = 0.6666666666666666lf;
const double tg_two_thirds_low_f64 = 3.700743415417188e-17lf;

//// two_thirds f32
// 2/3 as an unevaluated sum.
const float tg_two_thirds_high_f32 = 0.666666687f;
const float tg_two_thirds_low_f32 = -1.98682155e-8f;
