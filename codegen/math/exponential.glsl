//// log_split f64
// x = m 2^k for finite x > 0 with sqrt(1/2) <= m < sqrt(2): returns m and k.
// The offset 0x3fe6a09e is the upper half of sqrt(1/2): with it the carry selects the nearer power.
dvec2 tg_log_split_f64(double x) {
  bool subnormal = x < 2.2250738585072014e-308lf;
  precise double normal = subnormal ? x * 18014398509481984.0lf : x;
  uvec2 bits = unpackDouble2x32(normal);
  uint high = bits.y + (0x3ff00000u - 0x3fe6a09eu);
  int k = int(high >> 20) - (subnormal ? 1023 + 54 : 1023);
  double m = packDouble2x32(uvec2(bits.x, (high & 0x000fffffu) + 0x3fe6a09eu));
  return dvec2(m, double(k));
}

//// log_split f32
// x = m 2^k for finite x > 0 with sqrt(1/2) <= m < sqrt(2): returns m and k.
// The offset 0x3f3504f3 is sqrt(1/2), so that the carry moves k to the nearer power of two.
vec2 tg_log_split_f32(float x) {
  bool subnormal = x < 1.17549435e-38f;
  precise float normal = subnormal ? x * 33554432.0f : x;
  uint bits = floatBitsToUint(normal) + (0x3f800000u - 0x3f3504f3u);
  int k = int(bits >> 23) - (subnormal ? 127 + 25 : 127);
  float m = uintBitsToFloat((bits & 0x007fffffu) + 0x3f3504f3u);
  return vec2(m, float(k));
}

//// log_poly f64
// (2 atanh(s) / s - 2) / z as a function of z = s^2, |s| <= (sqrt(2) - 1) / (sqrt(2) + 1).
// Minimax polynomial (Remez).
double tg_log_poly_f64(double z) {
  precise double p = 0.14791947701136351lf;
  p = p * z + 0.15314478999143558lf;
  p = p * z + 0.18183546175326432lf;
  p = p * z + 0.2222219895791053lf;
  p = p * z + 0.2857142873815897lf;
  p = p * z + 0.39999999999436936lf;
  p = p * z + 0.6666666666666731lf;
  return p;
}

//// log_poly f32
// (2 atanh(s) / s - 2) / z as a function of z = s^2, |s| <= (sqrt(2) - 1) / (sqrt(2) + 1).
// Minimax polynomial (Remez).
float tg_log_poly_f32(float z) {
  precise float p = 0.235791162f;
  p = p * z + 0.28537491f;
  p = p * z + 0.400003314f;
  p = p * z + 0.666666627f;
  return p;
}

//// ln2 f64
// 1 / ln 2; ln 2 as a short part and the rest, so that k times the short part is exact.
const double tg_inverse_ln2_f64 = 1.4426950408889634lf;
const double tg_ln2_short_f64 = 0.6931471805598903lf;
const double tg_ln2_rest_f64 = 5.497923018708371e-14lf;

//// ln2 f32
// 1 / ln 2; ln 2 as a short part and the rest, so that k times the short part is exact.
const float tg_inverse_ln2_f32 = 1.44269502f;
const float tg_ln2_short_f32 = 0.693145752f;
const float tg_ln2_rest_f32 = 1.42860677e-6f;

//// log_core
// log(2^k (1 + f)) + c for -0.3 < f < 0.42 and a tiny c.
// With s = f / (2 + f) and h = f^2 / 2, log(1 + f) = 2 atanh(s) = f - (h - s (h + s^2 p(s^2))): the
// largest term is exact. Source: Cody & Waite, Software Manual for the Elementary Functions, ch. 5;
// Muller, Elementary Functions, 3rd ed., ch. 11.
// needs: log_poly ln2
REAL tg_log_core_PREC(REAL f, REAL c, REAL k) {
  precise REAL s = f / (2.0_r + f);
  precise REAL z = s * s;
  precise REAL h = 0.5_r * f * f;
  precise REAL low = s * (h + z * tg_log_poly_PREC(z)) + (k * tg_ln2_rest_PREC + c);
  precise REAL y = k * tg_ln2_short_PREC - ((h - low) - f);
  return y;
}

//// log1p_pair
// log(1 + x + y) for an unevaluated sum x + y > -1, finite. Near 1 the correction lost / sum takes a
// form in which an inexact division does not show.
// needs: two_sum log_split log_core
REAL tg_log1p_pair_PREC(REAL2 u) {
  REAL2 sum = tg_two_sum_PREC(1.0_r, u.x);
  precise REAL lost = sum.y + u.y;
  REAL2 split = tg_log_split_PREC(sum.x);
  precise REAL f = split.x - 1.0_r;
  precise REAL near = lost - lost * ((sum.x - 1.0_r) / sum.x);
  precise REAL far = lost / sum.x;
  REAL c = split.y == 0.0_r ? near : far;
  return tg_log_core_PREC(f, c, split.y);
}

//// big f64
// From here on sqrt(x^2 + 1) and sqrt(x^2 - 1) round to x.
const double tg_big_f64 = 268435456.0lf;

//// big f32
// From here on sqrt(x^2 + 1) and sqrt(x^2 - 1) round to x.
const float tg_big_f32 = 8192.0f;

//// acosh
// Inverse hyperbolic cosine: log1p(t + sqrt(t (x + 1))) with t = x - 1, and log(2 x) far out.
// needs: two_sum pair_sqrt pair_mul pair_add log1p_pair log_split log_core nan inf is_nan big
REAL tg_acosh_PREC(REAL x) {
  REAL y;
  if (x < tg_big_PREC) {
    REAL bounded = x < 1.0_r ? 1.0_r : x;
    REAL2 t = tg_two_sum_PREC(bounded, -1.0_r);
    REAL2 root = tg_pair_sqrt_PREC(tg_pair_mul_PREC(t, tg_two_sum_PREC(bounded, 1.0_r)));
    y = tg_log1p_pair_PREC(tg_pair_add_PREC(t, root));
  } else {
    REAL2 split = tg_log_split_PREC(x);
    precise REAL f = split.x - 1.0_r;
    precise REAL k = split.y + 1.0_r;
    y = tg_log_core_PREC(f, 0.0_r, k);
  }
  REAL edge = x < 1.0_r ? tg_nan_PREC() : y;
  bool itself = tg_is_nan_PREC(x) || x == tg_inf_PREC();
  return itself ? x : edge;
}

//// asinh
// Inverse hyperbolic sine: log1p(x + x^2 / (1 + sqrt(1 + x^2))), and log(2 x) far out.
// needs: two_prod pair_sqrt pair_add pair_div log1p_pair log_split log_core inf is_nan copysign
// needs: big small
REAL tg_asinh_PREC(REAL x) {
  REAL magnitude = abs(x);
  REAL y;
  if (magnitude < tg_big_PREC) {
    REAL2 square = tg_two_prod_PREC(magnitude, magnitude);
    REAL2 root = tg_pair_sqrt_PREC(tg_pair_add_PREC(square, REAL2(1.0_r, 0.0_r)));
    REAL2 quotient = tg_pair_div_PREC(square, tg_pair_add_PREC(root, REAL2(1.0_r, 0.0_r)));
    y = tg_log1p_pair_PREC(tg_pair_add_PREC(REAL2(magnitude, 0.0_r), quotient));
  } else {
    REAL2 split = tg_log_split_PREC(magnitude);
    precise REAL f = split.x - 1.0_r;
    precise REAL k = split.y + 1.0_r;
    y = tg_log_core_PREC(f, 0.0_r, k);
  }
  bool itself = magnitude < tg_small_PREC || tg_is_nan_PREC(x) || magnitude == tg_inf_PREC();
  return itself ? x : tg_copysign_PREC(y, x);
}

//// atanh
// Inverse hyperbolic tangent: log1p(2 x / (1 - x)) / 2.
// needs: pair_div two_sum log1p_pair nan inf is_nan copysign small
REAL tg_atanh_PREC(REAL x) {
  REAL magnitude = abs(x);
  REAL bounded = magnitude < 1.0_r ? magnitude : 0.0_r;
  precise REAL twice = bounded + bounded;
  REAL2 ratio = tg_pair_div_PREC(REAL2(twice, 0.0_r), tg_two_sum_PREC(1.0_r, -bounded));
  precise REAL y = 0.5_r * tg_log1p_pair_PREC(ratio);
  REAL edge = magnitude > 1.0_r ? tg_nan_PREC() : magnitude == 1.0_r ? tg_inf_PREC() : y;
  bool itself = magnitude < tg_small_PREC || tg_is_nan_PREC(x);
  return itself ? x : tg_copysign_PREC(edge, x);
}

//// exp_reduce
// x = z ln 2 + (x + y) with |x + y| <= ln 2 / 2, for moderate x: the sum and z, a whole number.
// z times the first part of ln 2 is exact. Source: Cody & Waite, Software Manual for the Elementary
// Functions, 1980, ch. 6.
// needs: nearest ln2
REAL3 tg_exp_reduce_PREC(REAL x) {
  precise REAL k = tg_nearest_PREC(x * tg_inverse_ln2_PREC);
  precise REAL high = x - k * tg_ln2_short_PREC;
  precise REAL low = k * tg_ln2_rest_PREC;
  precise REAL r = high - low;
  precise REAL rest = (high - r) - low;
  return REAL3(r, rest, k);
}

//// exp_poly f64
// (exp(r) - 1 - r) / r^2 for |r| <= ln 2 / 2.
// Minimax polynomial (Remez).
double tg_exp_poly_f64(double r) {
  precise double p = 2.0926912943937835e-9lf;
  p = p * r + 2.5112228097273935e-8lf;
  p = p * r + 2.755723345005603e-7lf;
  p = p * r + 2.755723426979489e-6lf;
  p = p * r + 2.480158737365951e-5lf;
  p = p * r + 0.000198412698970267lf;
  p = p * r + 0.0013888888888858454lf;
  p = p * r + 0.008333333333316751lf;
  p = p * r + 0.04166666666666673lf;
  p = p * r + 0.16666666666666685lf;
  p = p * r + 0.5lf;
  return p;
}

//// exp_poly f32
// (exp(r) - 1 - r) / r^2 for |r| <= ln 2 / 2.
// Minimax polynomial (Remez).
float tg_exp_poly_f32(float r) {
  precise float p = 0.000199184055f;
  p = p * r + 0.0013946062f;
  p = p * r + 0.00833326392f;
  p = p * r + 0.0416662693f;
  p = p * r + 0.166666672f;
  p = p * r + 0.5f;
  return p;
}

//// exp_core
// exp(r + rest) - 1 as an unevaluated sum, for |r| <= ln 2 / 2 and a tiny rest.
// Minimax polynomial of (exp(r) - 1 - r) / r^2 (Remez).
// needs: fast_two_sum exp_poly
REAL2 tg_exp_core_PREC(REAL r, REAL rest) {
  precise REAL tail = r * r * tg_exp_poly_PREC(r) + (rest + rest * r);
  return tg_fast_two_sum_PREC(r, tail);
}

//// exp2i f64
// 2 to the power of k for -1022 <= k <= 1023, exact.
double tg_exp2i_f64(int k) { return packDouble2x32(uvec2(0u, uint(k + 1023) << 20)); }

//// exp2i f32
// 2 to the power of k for -126 <= k <= 127, exact.
float tg_exp2i_f32(int k) { return uintBitsToFloat(uint(k + 127) << 23); }

//// cosh_range f64
// Beyond this bound sinh and cosh are infinite.
const double tg_cosh_max_f64 = 711.0lf;

//// cosh_range f32
// Beyond this bound sinh and cosh are infinite.
const float tg_cosh_max_f32 = 90.0f;

//// expm1_range f64
// exp(x) - 1 rounds to -1 below the first; 2^-k may be left out of sums with 1 beyond the second.
const double tg_expm1_min_f64 = -40.0lf;
const int tg_scale_max_f64 = 100;

//// expm1_range f32
// exp(x) - 1 rounds to -1 below the first; 2^-k may be left out of sums with 1 beyond the second.
const float tg_expm1_min_f32 = -20.0f;
const int tg_scale_max_f32 = 60;

//// cosh
// Hyperbolic cosine: 2^(k - 1) (e + 2^(-2k) / e) with exp(|x|) = 2^k e.
// needs: exp_reduce exp_core exp2i pair_add two_sum scale is_nan cosh_range expm1_range
REAL tg_cosh_PREC(REAL x) {
  REAL magnitude = abs(x);
  REAL bounded = magnitude > tg_cosh_max_PREC ? tg_cosh_max_PREC : magnitude;
  REAL3 reduced = tg_exp_reduce_PREC(bounded);
  int k = int(reduced.z);
  REAL2 core = tg_exp_core_PREC(reduced.x, reduced.y);
  REAL2 e = tg_pair_add_PREC(REAL2(1.0_r, 0.0_r), core);
  precise REAL other = tg_exp2i_PREC(-min(k + k, tg_scale_max_PREC)) / e.x;
  REAL2 sum = tg_two_sum_PREC(e.x, other);
  precise REAL rounded = sum.x + (sum.y + e.y);
  REAL y = tg_scale_PREC(rounded, k - 1);
  return tg_is_nan_PREC(x) ? x : y;
}

//// erf_poly f64
// (erf(x) - x) / x as a function of z = x^2 <= 1.
// Minimax polynomial (Remez).
double tg_erf_poly_f64(double z) {
  precise double p = 5.960687365487138e-11lf;
  p = p * z - 1.1374956310600045e-9lf;
  p = p * z + 1.4660328685329812e-8lf;
  p = p * z - 1.6350396185651638e-7lf;
  p = p * z + 1.6461008470897275e-6lf;
  p = p * z - 1.4925595771510586e-5lf;
  p = p * z + 0.00012055331132916607lf;
  p = p * z - 0.0008548326981424113lf;
  p = p * z + 0.0052239776248283985lf;
  p = p * z - 0.02686617064507787lf;
  p = p * z + 0.11283791670954885lf;
  p = p * z - 0.3761263890318375lf;
  p = p * z + 0.1283791670955126lf;
  return p;
}

//// erf_poly f32
// (erf(x) - x) / x as a function of z = x^2 <= 1.
// Minimax polynomial (Remez).
float tg_erf_poly_f32(float z) {
  precise float p = 7.88911493e-5f;
  p = p * z - 0.000802084047f;
  p = p * z + 0.00518953521f;
  p = p * z - 0.0268544443f;
  p = p * z + 0.112836003f;
  p = p * z - 0.37612626f;
  p = p * z + 0.128379166f;
  return p;
}

//// erfc_poly f64
// erfc(x) exp(x^2) as a function of z = (x - 3) / (x + 3), 1 <= x <= 6.
// Minimax polynomial (Remez).
double tg_erfc_poly_f64(double z) {
  precise double p = 8.45566132199298e-7lf;
  p = p * z + 8.759250612340325e-7lf;
  p = p * z - 9.275540077484569e-6lf;
  p = p * z - 1.3586114437925971e-5lf;
  p = p * z + 6.384364765587269e-5lf;
  p = p * z + 4.524474718413203e-5lf;
  p = p * z - 0.0005970455701503121lf;
  p = p * z + 0.0007077531276431901lf;
  p = p * z + 0.00426913760639372lf;
  p = p * z - 0.02439249919889689lf;
  p = p * z + 0.0716658371998751lf;
  p = p * z - 0.15011593650144262lf;
  p = p * z + 0.2456038017122764lf;
  p = p * z - 0.3262335600430384lf;
  p = p * z + 0.17900115118138996lf;
  return p;
}

//// erfc_poly f32
// erfc(x) exp(x^2) as a function of z = (x - 3) / (x + 3), 1 <= x <= 4.
// Minimax polynomial (Remez).
float tg_erfc_poly_f32(float z) {
  precise float p = 0.000925614848f;
  p = p * z - 0.0280370358f;
  p = p * z + 0.0697260499f;
  p = p * z - 0.150687501f;
  p = p * z + 0.245510325f;
  p = p * z - 0.326241285f;
  p = p * z + 0.179000914f;
  return p;
}

//// exp_range f64
// Beyond these bounds exp is infinite or rounds to 0.
const double tg_exp_max_f64 = 710.0lf;
const double tg_exp_min_f64 = -746.0lf;

//// exp_range f32
// Beyond these bounds exp is infinite or rounds to 0.
const float tg_exp_max_f32 = 89.0f;
const float tg_exp_min_f32 = -104.0f;

//// exp
// e to the power of x.
// needs: exp_reduce exp_core one_plus scale is_nan exp_range
REAL tg_exp_PREC(REAL x) {
  REAL below = x > tg_exp_max_PREC ? tg_exp_max_PREC : x;
  REAL bounded = below < tg_exp_min_PREC ? tg_exp_min_PREC : below;
  REAL3 reduced = tg_exp_reduce_PREC(bounded);
  REAL2 core = tg_exp_core_PREC(reduced.x, reduced.y);
  REAL y = tg_scale_PREC(tg_one_plus_PREC(core), int(reduced.z));
  return tg_is_nan_PREC(x) ? x : y;
}

//// erf_range f64
// erf rounds to 1 from here on.
const double tg_erf_max_f64 = 6.0lf;

//// erf_range f32
// erf rounds to 1 from here on.
const float tg_erf_max_f32 = 4.0f;

//// erf_slope f64
// 2 / sqrt(pi), the slope of erf at 0, and a magnitude below which it is all that is left and the
// terms of a longer form could be subnormal.
const double tg_erf_slope_f64 = 1.1283791670955126lf;
const double tg_erf_linear_f64 = 1.1830521861667747e-271lf;

//// erf_slope f32
// 2 / sqrt(pi), the slope of erf at 0, and a magnitude below which it is all that is left and the
// terms of a longer form could be subnormal.
const float tg_erf_slope_f32 = 1.12837917f;
const float tg_erf_linear_f32 = 7.88860905e-31f;

//// erf
// Error function: x + x p(x^2) up to 1, then 1 - exp(-x^2) q((x - 3) / (x + 3)).
// Source: Cody, Rational Chebyshev approximations for the error function, 1969 (the splitting).
// needs: erf_poly erfc_poly exp is_nan copysign erf_range erf_slope
REAL tg_erf_PREC(REAL x) {
  REAL magnitude = abs(x);
  REAL y;
  if (magnitude < 1.0_r) {
    precise REAL inner = magnitude + magnitude * tg_erf_poly_PREC(magnitude * magnitude);
    precise REAL linear = magnitude * tg_erf_slope_PREC;
    y = magnitude < tg_erf_linear_PREC ? linear : inner;
  } else {
    REAL bounded = magnitude > tg_erf_max_PREC ? tg_erf_max_PREC : magnitude;
    precise REAL s = (bounded - 3.0_r) / (bounded + 3.0_r);
    precise REAL outer = 1.0_r - tg_exp_PREC(-bounded * bounded) * tg_erfc_poly_PREC(s);
    y = outer;
  }
  return tg_is_nan_PREC(x) ? x : tg_copysign_PREC(y, x);
}

//// exp2_range f64
// Beyond these bounds exp2 is infinite or rounds to 0.
const double tg_exp2_max_f64 = 1025.0lf;
const double tg_exp2_min_f64 = -1076.0lf;

//// exp2_range f32
// Beyond these bounds exp2 is infinite or rounds to 0.
const float tg_exp2_max_f32 = 129.0f;
const float tg_exp2_min_f32 = -151.0f;

//// ln2_pair f64
// ln 2 as an unevaluated sum.
const double tg_ln2_high_f64 = 0.6931471805599453lf;
const double tg_ln2_low_f64 = 2.3190468138462996e-17lf;

//// ln2_pair f32
// ln 2 as an unevaluated sum.
const float tg_ln2_high_f32 = 0.693147182f;
const float tg_ln2_low_f32 = -1.90465421e-9f;

//// exp2
// 2 to the power of x. x - k is exact, its product with ln 2 is carried in two parts.
// needs: nearest two_prod exp_core one_plus scale is_nan exp2_range ln2_pair
REAL tg_exp2_PREC(REAL x) {
  REAL below = x > tg_exp2_max_PREC ? tg_exp2_max_PREC : x;
  REAL bounded = below < tg_exp2_min_PREC ? tg_exp2_min_PREC : below;
  REAL k = tg_nearest_PREC(bounded);
  precise REAL fraction = bounded - k;
  REAL2 r = tg_two_prod_PREC(fraction, tg_ln2_high_PREC);
  precise REAL rest = r.y + fraction * tg_ln2_low_PREC;
  REAL y = tg_scale_PREC(tg_one_plus_PREC(tg_exp_core_PREC(r.x, rest)), int(k));
  return tg_is_nan_PREC(x) ? x : y;
}

//// tiny f64
// Below this magnitude expm1(x) and log1p(x) round to x.
const double tg_tiny_f64 = 5.551115123125783e-17lf;

//// tiny f32
// Below this magnitude expm1(x) and log1p(x) round to x.
const float tg_tiny_f32 = 2.98023224e-8f;

//// expm1
// exp(x) - 1 without cancellation near 0.
// needs: exp_reduce exp_core exp2i pair_add scale is_nan exp_range expm1_range tiny
REAL tg_expm1_PREC(REAL x) {
  REAL below = x > tg_exp_max_PREC ? tg_exp_max_PREC : x;
  REAL bounded = below < tg_expm1_min_PREC ? tg_expm1_min_PREC : below;
  REAL3 reduced = tg_exp_reduce_PREC(bounded);
  int k = int(reduced.z);
  REAL2 core = tg_exp_core_PREC(reduced.x, reduced.y);
  precise REAL whole = 1.0_r - tg_exp2i_PREC(-min(k, tg_scale_max_PREC));
  REAL2 sum = tg_pair_add_PREC(REAL2(whole, 0.0_r), core);
  REAL y = tg_scale_PREC(sum.x, k);
  bool itself = abs(x) < tg_tiny_PREC || tg_is_nan_PREC(x);
  return itself ? x : y;
}

//// expm1_pair
// exp(x) - 1 as an unevaluated sum, for |x| <= 40 (20 in single precision).
// needs: exp_reduce exp_core exp2i pair_add pair_scale
REAL2 tg_expm1_pair_PREC(REAL x) {
  REAL3 reduced = tg_exp_reduce_PREC(x);
  int k = int(reduced.z);
  REAL2 core = tg_exp_core_PREC(reduced.x, reduced.y);
  precise REAL whole = 1.0_r - tg_exp2i_PREC(-k);
  REAL2 sum = tg_pair_add_PREC(REAL2(whole, 0.0_r), core);
  return tg_pair_scale_PREC(sum, tg_exp2i_PREC(k));
}

//// log_domain
// y = log(x) with the values outside of 0 < x < infinity put right.
// needs: nan inf is_nan
REAL tg_log_domain_PREC(REAL x, REAL y) {
  REAL edge = x < 0.0_r ? tg_nan_PREC() : x == 0.0_r ? -tg_inf_PREC() : y;
  bool itself = tg_is_nan_PREC(x) || x == tg_inf_PREC();
  return itself ? x : edge;
}

//// log
// Natural logarithm.
// needs: log_split log_core log_domain
REAL tg_log_PREC(REAL x) {
  REAL2 split = tg_log_split_PREC(x);
  precise REAL f = split.x - 1.0_r;
  return tg_log_domain_PREC(x, tg_log_core_PREC(f, 0.0_r, split.y));
}

//// log_pair_poly f64
// ((2 atanh(s) / s - 2) / z - 2/3) / z, z = s^2, |s| <= (sqrt(2) - 1) / (sqrt(2) + 1).
// Minimax polynomial (Remez).
double tg_log_pair_poly_f64(double z) {
  precise double p = 0.10907709913774703lf;
  p = p * z + 0.10438000887481615lf;
  p = p * z + 0.11767764530481528lf;
  p = p * z + 0.13333270372140954lf;
  p = p * z + 0.15384616169035045lf;
  p = p * z + 0.18181818176090478lf;
  p = p * z + 0.22222222222244484lf;
  p = p * z + 0.28571428571428537lf;
  p = p * z + 0.4lf;
  return p;
}

//// log_pair_poly f32
// ((2 atanh(s) / s - 2) / z - 2/3) / z, z = s^2, |s| <= (sqrt(2) - 1) / (sqrt(2) + 1).
// Minimax polynomial (Remez).
float tg_log_pair_poly_f32(float z) {
  precise float p = 0.193586662f;
  p = p * z + 0.221921727f;
  p = p * z + 0.285717249f;
  p = p * z + 0.400000006f;
  return p;
}

//// log_pair
// log(m) as an unevaluated sum with about ten bits more than one number has, for m between
// sqrt(1/2) and sqrt(2): 2 s + s^3 (2/3 + s^2 p(s^2)) with s = (m - 1) / (m + 1) and the leading
// terms in two parts. Source: Muller, Elementary Functions, 3rd ed., ch. 11.
// needs: pair_div pair_mul pair_add pair_scale two_sum fast_two_sum log_pair_poly two_thirds
REAL2 tg_log_pair_PREC(REAL m) {
  precise REAL f = m - 1.0_r;
  REAL2 s = tg_pair_div_PREC(REAL2(f, 0.0_r), tg_two_sum_PREC(2.0_r, f));
  REAL2 square = tg_pair_mul_PREC(s, s);
  precise REAL z = square.x;
  precise REAL tail = z * tg_log_pair_poly_PREC(z) + tg_two_thirds_low_PREC;
  REAL2 factor = tg_fast_two_sum_PREC(tg_two_thirds_high_PREC, tail);
  REAL2 cubic = tg_pair_mul_PREC(tg_pair_mul_PREC(s, square), factor);
  return tg_pair_add_PREC(tg_pair_scale_PREC(s, 2.0_r), cubic);
}

//// log10_e f64
// 1 / ln 10 as an unevaluated sum; log10(2) as a short part and the rest.
const double tg_log10_e_high_f64 = 0.4342944819032518lf;
const double tg_log10_e_low_f64 = 1.098319650216765e-17lf;
const double tg_log10_2_short_f64 = 0.30102999566395283lf;
const double tg_log10_2_rest_f64 = 2.8363394551044964e-14lf;

//// log10_e f32
// 1 / ln 10 as an unevaluated sum; log10(2) as a short part and the rest.
const float tg_log10_e_high_f32 = 0.434294492f;
const float tg_log10_e_low_f32 = -1.010305e-8f;
const float tg_log10_2_short_f32 = 0.301025391f;
const float tg_log10_2_rest_f32 = 4.60503907e-6f;

//// log10
// Logarithm to base 10; exact for powers of ten.
// needs: log_split log_pair pair_mul pair_add two_sum log_domain log10_e
REAL tg_log10_PREC(REAL x) {
  REAL2 split = tg_log_split_PREC(x);
  REAL2 base = REAL2(tg_log10_e_high_PREC, tg_log10_e_low_PREC);
  REAL2 y = tg_pair_mul_PREC(tg_log_pair_PREC(split.x), base);
  precise REAL whole = split.y * tg_log10_2_short_PREC;
  precise REAL rest = split.y * tg_log10_2_rest_PREC;
  return tg_log_domain_PREC(x, tg_pair_add_PREC(tg_two_sum_PREC(whole, rest), y).x);
}

//// log1p
// log(1 + x) without cancellation near 0.
// needs: log1p_pair nan inf is_nan tiny
REAL tg_log1p_PREC(REAL x) {
  REAL y = tg_log1p_pair_PREC(REAL2(x, 0.0_r));
  REAL edge = x < -1.0_r ? tg_nan_PREC() : x == -1.0_r ? -tg_inf_PREC() : y;
  bool itself = abs(x) < tg_tiny_PREC || tg_is_nan_PREC(x) || x == tg_inf_PREC();
  return itself ? x : edge;
}

//// log2_e f64
// 1 / ln 2 as an unevaluated sum.
const double tg_log2_e_high_f64 = 1.4426950408889634lf;
const double tg_log2_e_low_f64 = 2.0355273740931033e-17lf;

//// log2_e f32
// 1 / ln 2 as an unevaluated sum.
const float tg_log2_e_high_f32 = 1.44269502f;
const float tg_log2_e_low_f32 = 1.92596303e-8f;

//// log2
// Logarithm to base 2; exact for powers of two.
// needs: log_split log_pair pair_mul pair_add log_domain log2_e
REAL tg_log2_PREC(REAL x) {
  REAL2 split = tg_log_split_PREC(x);
  REAL2 base = REAL2(tg_log2_e_high_PREC, tg_log2_e_low_PREC);
  REAL2 y = tg_pair_mul_PREC(tg_log_pair_PREC(split.x), base);
  return tg_log_domain_PREC(x, tg_pair_add_PREC(REAL2(split.y, 0.0_r), y).x);
}

//// pow_range f64
// x to a power of greater magnitude is 0, 1 or infinite.
const double tg_pow_max_f64 = 36893488147419103232.0lf;

//// pow_range f32
// x to a power of greater magnitude is 0, 1 or infinite.
const float tg_pow_max_f32 = 4294967296.0f;

//// pow_magnitude
// x to the power of y for finite x > 0: exp(y log x) with the product carried in two parts.
// Beyond the bound on y the result is 0, 1 or infinity whatever y is.
// Source: Muller, Elementary Functions, 3rd ed., ch. 13.
// needs: log_split two_sum fast_two_sum log_pair pair_add pair_mul exp_reduce exp_core one_plus
// needs: scale copysign ln2 pow_range exp_range
REAL tg_pow_magnitude_PREC(REAL x, REAL y) {
  REAL2 split = tg_log_split_PREC(x);
  precise REAL whole = split.y * tg_ln2_short_PREC;
  precise REAL rest = split.y * tg_ln2_rest_PREC;
  REAL2 log_x = tg_pair_add_PREC(tg_two_sum_PREC(whole, rest), tg_log_pair_PREC(split.x));
  REAL exponent = abs(y) > tg_pow_max_PREC ? tg_copysign_PREC(tg_pow_max_PREC, y) : y;
  REAL2 product = tg_pair_mul_PREC(REAL2(exponent, 0.0_r), log_x);
  bool over = product.x > tg_exp_max_PREC;
  bool under = product.x < tg_exp_min_PREC;
  REAL bounded = over ? tg_exp_max_PREC : under ? tg_exp_min_PREC : product.x;
  REAL3 reduced = tg_exp_reduce_PREC(bounded);
  precise REAL low = reduced.y + (over || under ? 0.0_r : product.y);
  REAL2 r = tg_fast_two_sum_PREC(reduced.x, low);
  REAL2 core = tg_exp_core_PREC(r.x, r.y);
  return tg_scale_PREC(tg_one_plus_PREC(core), int(reduced.z));
}

//// pow
// x to the power of y, special values as in C (annex F): pow(x, 0) = pow(1, y) = 1 even for NaN,
// and NaN for a finite negative x with a y that is no whole number.
// needs: pow_magnitude inf nan is_nan copysign
REAL tg_pow_PREC(REAL x, REAL y) {
  REAL magnitude = abs(x);
  bool ordinary = magnitude > 0.0_r && magnitude < tg_inf_PREC();
  REAL steep = (magnitude == 0.0_r) == (y < 0.0_r) ? tg_inf_PREC() : 0.0_r;
  REAL z = ordinary ? tg_pow_magnitude_PREC(magnitude, y) : steep;
  precise REAL half_y = 0.5_r * y;
  bool whole = floor(y) == y;
  bool odd = whole && floor(half_y) != half_y;
  REAL signed_z = odd ? tg_copysign_PREC(z, x) : z;
  bool undefined = x < 0.0_r && ordinary && !whole;
  bool one = x == 1.0_r || y == 0.0_r;
  bool poisoned = undefined || tg_is_nan_PREC(x) || tg_is_nan_PREC(y);
  return one ? 1.0_r : poisoned ? tg_nan_PREC() : signed_z;
}

//// sigmoid
// 1 / (1 + exp(-x)), with all digits in the lower tail.
// needs: exp two_sum pair_div
REAL tg_sigmoid_PREC(REAL x) {
  REAL power = tg_exp_PREC(-abs(x));
  REAL numerator = x < 0.0_r ? power : 1.0_r;
  return tg_pair_div_PREC(REAL2(numerator, 0.0_r), tg_two_sum_PREC(1.0_r, power)).x;
}

//// tanh_range f64
// tanh rounds to 1 and sinh to exp / 2 from here on.
const double tg_tanh_max_f64 = 22.0lf;

//// tanh_range f32
// tanh rounds to 1 and sinh to exp / 2 from here on.
const float tg_tanh_max_f32 = 10.0f;

//// sinh
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

//// tanh
// Hyperbolic tangent: t / (t + 2) with t = exp(2 |x|) - 1 in two parts.
// needs: expm1_pair pair_div pair_add is_nan copysign tanh_range small
REAL tg_tanh_PREC(REAL x) {
  REAL magnitude = abs(x);
  REAL bounded = magnitude > tg_tanh_max_PREC ? tg_tanh_max_PREC : magnitude;
  precise REAL twice = bounded + bounded;
  REAL2 t = tg_expm1_pair_PREC(twice);
  REAL2 quotient = tg_pair_div_PREC(t, tg_pair_add_PREC(t, REAL2(2.0_r, 0.0_r)));
  REAL y = magnitude >= tg_tanh_max_PREC ? 1.0_r : quotient.x;
  bool itself = magnitude < tg_small_PREC || tg_is_nan_PREC(x);
  return itself ? x : tg_copysign_PREC(y, x);
}

//// cdf_near_poly f64
// (cdf(x) - 1/2) / x of the normal distribution as a function of z = x^2 <= 0.65^2.
// Interpolation at Chebyshev nodes.
double tg_cdf_near_poly_f64(double z) {
  precise double p = 2.0690770970671442e-09lf;
  p = p * z - 4.106737686794913e-08lf;
  p = p * z + 6.659018515565385e-07lf;
  p = p * z - 9.44463953233107e-06lf;
  p = p * z + 0.0001154346851769428lf;
  p = p * z - 0.0011873282152804403lf;
  p = p * z + 0.009973557010027596lf;
  p = p * z - 0.06649038006690532lf;
  p = p * z + 0.3989422804014327lf;
  return p;
}

//// cdf_range f64
// Below the negative of the first the distribution rounds to 0; the others are k and
// f(0) of its tail.
const double tg_cdf_max_f64 = 38.6lf;
const double tg_cdf_tail_f64 = 4.625lf;
const double tg_cdf_tail_middle_f64 = 0.7648792113800259lf;

//// cdf_range f32
// Below the negative of the first the distribution rounds to 0; the others are k and the value in the
// middle of its tail.
const float tg_cdf_max_f32 = 14.5f;
const float tg_cdf_tail_f32 = 1.5f;
const float tg_cdf_tail_middle_f32 = 0.617341995f;

//// cdf_tail_poly f64
// (f(t) - f(0)) / t for f(t) = cdf(-x) exp(x^2 / 2) (x + k) of the normal distribution,
// t = (x - k) / (x + k), k = 4.625, 0.65 <= x <= 38.6. Interpolation at Chebyshev nodes.
double tg_cdf_tail_poly_f64(double t) {
  precise double p = -4.712174799941456e-09lf;
  p = p * t - 1.5115451078833626e-08lf;
  p = p * t + 3.7066971257426155e-08lf;
  p = p * t + 1.396665112518345e-07lf;
  p = p * t - 1.945016628659931e-07lf;
  p = p * t - 9.181403360553873e-07lf;
  p = p * t + 1.1419455779978767e-06lf;
  p = p * t + 5.733915536337114e-06lf;
  p = p * t - 9.413812727034415e-06lf;
  p = p * t - 3.448851539670598e-05lf;
  p = p * t + 9.946391721600002e-05lf;
  p = p * t + 0.000146281190379284lf;
  p = p * t - 0.0010815463259080506lf;
  p = p * t + 0.0010987955632380784lf;
  p = p * t + 0.007555649622583043lf;
  p = p * t - 0.04199347713718339lf;
  p = p * t + 0.12470768455959533lf;
  p = p * t - 0.26887001764254975lf;
  p = p * t + 0.4595691110632015lf;
  p = p * t - 0.6471308936158244lf;
  return p;
}

//// cdf_tail_poly f32
// (f(t) - f(0)) / t for f(t) = cdf(-u) exp(u^2 / 2) (u + k) of the normal distribution,
// t = (u - k) / (u + k), k = 1.5, 0 <= u <= 14.5. Interpolation at Chebyshev nodes.
float tg_cdf_tail_poly_f32(float t) {
  precise float p = 0.000158031515f;
  p = fma(p, t, 0.000471279607f);
  p = fma(p, t, 0.00024008601f);
  p = fma(p, t, -0.00105012546f);
  p = fma(p, t, -0.00270501431f);
  p = fma(p, t, -0.00243016076f);
  p = fma(p, t, 0.00398705527f);
  p = fma(p, t, 0.0176397003f);
  p = fma(p, t, 0.0178965796f);
  p = fma(p, t, -0.0574954376f);
  p = fma(p, t, -0.195099473f);
  return p;
}

//// exp_short_poly f32
// (exp(r) - 1 - r) / r^2 for -0.405 <= r <= 0.35, within 2.1e-8 of exp(r).
// Weighted least squares, iterated towards the minimax polynomial.
float tg_exp_short_poly_f32(float r) {
  precise float p = 0.00136410701f;
  p = fma(p, r, 0.00836643297f);
  p = fma(p, r, 0.0416695476f);
  p = fma(p, r, 0.166665554f);
  p = fma(p, r, 0.49999997f);
  return p;
}

//// exp_decay f32
// e to the power of x <= 0 within 2 ulp, for sums of such powers.
// needs: ln2 exp_short_poly is_nan
float tg_exp_decay_f32(float x) {
  float bounded = x < -104.0f ? -104.0f : x;
  // The nearest whole number, also in the lowest bits of what 1.5 * 2^23 is added to.
  precise float shifted = fma(bounded, tg_inverse_ln2_f32, 12582912.0f);
  precise float k = shifted - 12582912.0f;
  precise float r = fma(k, -tg_ln2_short_f32, bounded);
  r = fma(k, -tg_ln2_rest_f32, r);
  precise float slope = fma(tg_exp_short_poly_f32(r), r, 1.0f);
  precise float power = fma(slope, r, 1.0f);
  // 2^(k + 64), then 2^-64: results below the normal range round once.
  float scale = uintBitsToFloat((floatBitsToUint(shifted) << 23) + (191u << 23));
  precise float y = power * scale * 5.42101086e-20f;
  return tg_is_nan_f32(x) ? x : y;
}

//// normal_cdf f64
// Cumulative distribution of the standard normal law, erfc(-x / sqrt(2)) / 2. Near 0 a polynomial of
// x^2; beyond, exp(-x^2 / 2) in two parts times a polynomial of (|x| - k) / (|x| + k) over |x| + k,
// so that far tails have all their digits.
// Source: Shepherd & Laframboise, Chebyshev approximation of (1 + 2x) exp(x^2) erfc(x), 1981 (the
// form of the tail).
// needs: cdf_near_poly cdf_tail_poly cdf_range two_sum two_prod fast_two_sum pair_add pair_div
// needs: pair_mul exp_reduce exp_core scale is_nan
double tg_normal_cdf_f64(double x) {
  double magnitude = abs(x);
  double y;
  if (magnitude < 0.65lf) {
    precise double near = 0.5lf + x * tg_cdf_near_poly_f64(x * x);
    y = near;
  } else {
    double u = magnitude > tg_cdf_max_f64 ? tg_cdf_max_f64 : magnitude;
    dvec2 below = tg_two_sum_f64(u, -tg_cdf_tail_f64);
    dvec2 above = tg_two_sum_f64(u, tg_cdf_tail_f64);
    dvec2 t = tg_pair_div_f64(below, above);
    double slope = tg_cdf_tail_poly_f64(t.x);
    dvec2 product = tg_two_prod_f64(t.x, slope);
    precise double lost = product.y + t.y * slope;
    dvec2 f = tg_pair_add_f64(dvec2(tg_cdf_tail_middle_f64, 0.0lf), dvec2(product.x, lost));
    dvec2 scaled = tg_pair_div_f64(f, above);
    dvec2 square = tg_two_prod_f64(u, u);
    dvec3 reduced = tg_exp_reduce_f64(-0.5lf * square.x);
    precise double rest = reduced.y - 0.5lf * square.y;
    dvec2 r = tg_fast_two_sum_f64(reduced.x, rest);
    dvec2 core = tg_exp_core_f64(r.x, r.y);
    dvec2 power = tg_fast_two_sum_f64(1.0lf, core.x);
    dvec2 tail = tg_pair_mul_f64(scaled, dvec2(power.x, power.y + core.y));
    double lower = tg_scale_f64(tail.x, int(reduced.z));
    precise double upper = 1.0lf - lower;
    y = x < 0.0lf ? lower : upper;
  }
  return tg_is_nan_f64(x) ? x : y;
}

//// normal_cdf f32
// Cumulative distribution of the standard normal law, erfc(-x / sqrt(2)) / 2, without a branch: its
// lower tail is exp(-u^2 / 2) f(t) / (u + k), u = |x|, t = (u - k) / (u + k). u^2 is h^2 + (u - h) (u + h),
// where h has the upper half of the digits of u and an exact square. The rounding error of u + k goes
// into the exponent. Sums of fma() may be fused with products or not, and regrouped where they are not.
// Source: Shepherd & Laframboise, Chebyshev approximation of (1 + 2x) exp(x^2) erfc(x), 1981 (the
// form of the tail).
// needs: cdf_tail_poly cdf_range ln2 exp_short_poly scale_small is_nan
float tg_normal_cdf_f32(float x) {
  float magnitude = abs(x);
  float u = magnitude > tg_cdf_max_f32 ? tg_cdf_max_f32 : magnitude;
  float h = uintBitsToFloat(floatBitsToUint(u) & 0xfffff000u);
  precise float half_h = -0.5f * h;
  precise float square = half_h * h;
  precise float rest = (-0.5f * u - half_h) * (u + h);
  precise float above = u + tg_cdf_tail_f32;
  precise float lost = (above - tg_cdf_tail_f32) - u;
  precise float inverse = 1.0f / above;

  // The exponent in units of ln 2: a whole number, which is in the last bits of `shifted`, and the rest.
  precise float shifted = square * tg_inverse_ln2_f32 + 12582912.0f;
  precise float k = shifted - 12582912.0f;
  precise float high = square - k * tg_ln2_short_f32;
  precise float r = high + fma(lost, inverse, fma(-k, tg_ln2_rest_f32, rest));
  precise float power = fma(r * r, tg_exp_short_poly_f32(r), r);  // exp(r) - 1

  precise float t = fma(-2.0f * tg_cdf_tail_f32, inverse, 1.0f);
  precise float slope = t * tg_cdf_tail_poly_f32(t);
  precise float change = fma(power, tg_cdf_tail_middle_f32 + slope, slope);
  precise float front = (tg_cdf_tail_middle_f32 + change) * inverse;
  float lower = tg_scale_small_f32(front, floatBitsToUint(shifted));
  precise float upper = 1.0f - lower;
  float y = x < 0.0f ? lower : upper;
  return tg_is_nan_f32(x) ? x : y;
}
