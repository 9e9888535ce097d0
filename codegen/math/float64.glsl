// IEEE 754 binary64 in 32-bit integers: x has the low 32 bits of a number, y the high ones.
//
// Results are correctly rounded to nearest, ties to even, with subnormals, signed zeros and infinities; every NaN that is made is the same
// quiet one. Nothing but the estimates of reciprocals uses floats, and these may be off by 8 ulp without any effect on a result. There are no
// loops. The text is also valid C++ if TG_OUT, TG_ROUGH and GLSL's types and functions are defined (tests/codegen/float64_test.cpp).

#ifndef TG_OUT
#define TG_OUT(T) out T
#define TG_INOUT(T) inout T
#define TG_ROUGH(x) (x)
#endif

#define TG_NAN uvec2(0u, 0x7ff80000u)
#define TG_SIGN 0x80000000u
#define TG_INFINITE 0x7ff00000u

// Operands of ?: && and || are names and constants: the compiler then selects, and makes no branch.
uint w_pick(const bool c, const uint a, const uint b) { return c ? a : b; }
int w_pick_int(const bool c, const int a, const int b) { return c ? a : b; }
uvec2 w64_pick(const bool c, const uvec2 a, const uvec2 b) {
  return uvec2(w_pick(c, a.x, b.x), w_pick(c, a.y, b.y));
}

// 64-bit integers

uvec2 w64_add(const uvec2 a, const uvec2 b) {
  uint low = a.x + b.x;
  bool carries = low < a.x;
  return uvec2(low, a.y + b.y + w_pick(carries, 1u, 0u));
}

uvec2 w64_sub(const uvec2 a, const uvec2 b) {
  bool borrows = a.x < b.x;
  return uvec2(a.x - b.x, a.y - b.y - w_pick(borrows, 1u, 0u));
}

bool w64_less(const uvec2 a, const uvec2 b) {
  bool less = a.y < b.y;
  bool same = a.y == b.y;
  bool low = a.x < b.x;
  bool second = same && low;
  return less || second;
}

// a << n for n < 64
uvec2 w64_shl(const uvec2 a, const uint n) {
  uint m = n & 31u;
  uint low = a.x << m;
  uint high = (a.y << m) | ((a.x >> 1u) >> (31u - m));
  bool small = n < 32u;
  return uvec2(w_pick(small, low, 0u), w_pick(small, high, low));
}

// a >> n for any n and a < 2^63; the last bit is set if a bit that was set is lost
uvec2 w64_shr_jam(const uvec2 a, const uint n) {
  uint k = min(n, 63u);
  uint m = k & 31u;
  uint mask = (1u << m) - 1u;
  uint low = (a.x >> m) | ((a.y << 1u) << (31u - m));
  uint high = a.y >> m;
  bool small = k < 32u;
  uint lost = w_pick(small, a.x & mask, a.x | (a.y & mask));
  bool loses = lost != 0u;
  return uvec2(w_pick(small, low, high) | w_pick(loses, 1u, 0u), w_pick(small, high, 0u));
}

// Number of zeros before the first bit of a, which is not 0.
uint w64_zeros(const uvec2 a) {
  bool top = a.y != 0u;
  return w_pick(top, 31u, 63u) - uint(findMSB(w_pick(top, a.y, a.x)));
}

// The low 64 bits of a b
uvec2 w64_times(const uvec2 a, const uint b) {
  uint high, low;
  umulExtended(a.x, b, high, low);
  return uvec2(low, high + a.y * b);
}

// a b in 128 bits, from the lowest word on
uvec4 w64_mul(const uvec2 a, const uvec2 b) {
  uint h0, l0, h1, l1, h2, l2, h3, l3;
  umulExtended(a.x, b.x, h0, l0);
  umulExtended(a.x, b.y, h1, l1);
  umulExtended(a.y, b.x, h2, l2);
  umulExtended(a.y, b.y, h3, l3);
  // Neither of these two sums exceeds 64 bits.
  uvec2 middle = w64_add(uvec2(l1, h1), uvec2(h0, 0u));
  uvec2 top = w64_add(uvec2(l3, h3), uvec2(middle.y, 0u));
  middle = w64_add(uvec2(l2, h2), uvec2(middle.x, 0u));
  top = w64_add(top, uvec2(middle.y, 0u));
  return uvec4(l0, middle.x, top.x, top.y);
}

// parts of numbers

uvec2 f64_abs(const uvec2 a) { return uvec2(a.x, a.y & ~TG_SIGN); }
uvec2 f64_neg(const uvec2 a) { return uvec2(a.x, a.y ^ TG_SIGN); }
// For numbers without their sign
bool f64_nan_size(const uvec2 p) {
  bool rest = p.x != 0u;
  return p.y + w_pick(rest, 1u, 0u) > TG_INFINITE;
}
bool f64_is_nan(const uvec2 a) { return f64_nan_size(f64_abs(a)); }
bool f64_is_inf(const uvec2 a) {
  bool low = a.x == 0u;
  bool high = (a.y & ~TG_SIGN) == TG_INFINITE;
  return low && high;
}
bool f64_is_zero(const uvec2 a) { return (a.x | (a.y & ~TG_SIGN)) == 0u; }

// Significand of a finite number without its sign, and its exponent field, or 1 without a first bit.
uvec2 f64_open(const uvec2 p, TG_OUT(int) e) {
  int field = int(p.y >> 20u);
  bool normal = field > 0;
  e = max(field, 1);
  return uvec2(p.x, (p.y & 0xfffffu) | w_pick(normal, 0x100000u, 0u));
}

// The same with the first bit of the significand at 52.
uvec2 f64_open_normal(const uvec2 p, TG_OUT(int) e) {
  uvec2 s = f64_open(p, e);
  if (s.y < 0x100000u) {
    uint n = min(w64_zeros(s) - 11u, 52u);
    e -= int(n);
    s = w64_shl(s, n);
  }
  return s;
}

// The number with significand s, its first bit at 62 or, where e is 0, below, and exponent field e + 1. The last bit of s stands for all lower
// ones.
uvec2 f64_pack(const uint sign, const int e, const uvec2 s) {
  uint low = s.x + 0x200u;
  bool carries = low < 0x200u;
  uint high = s.y + w_pick(carries, 1u, 0u);
  bool tie = (s.x & 0x3ffu) == 0x200u;
  bool over = e > 0x7fd;
  uint last = w_pick(tie, 1u, 0u);
  uint x = ((low >> 10u) | (high << 22u)) & ~last;
  uint y = (uint(e) << 20u) + (high >> 10u);
  return uvec2(w_pick(over, 0u, x), sign | w_pick(over, TG_INFINITE, y));
}

// The same for any exponent.
uvec2 f64_round(const uint sign, const int e, const uvec2 s) {
  uvec2 t = s;
  if (e < 0) t = w64_shr_jam(s, uint(-e));
  return f64_pack(sign, max(e, 0), t);
}

// arithmetic

uvec2 f64_add(const uvec2 a, const uvec2 b) {
  bool swapped = w64_less(f64_abs(a), f64_abs(b));
  uvec2 larger = w64_pick(swapped, b, a);
  uvec2 p = f64_abs(larger);
  uvec2 q = f64_abs(w64_pick(swapped, a, b));
  bool minus = (a.y ^ b.y) >= TG_SIGN;
  int e, f;
  uvec2 s = w64_shl(f64_open(p, e), 9u);
  uvec2 t = w64_shl(f64_open(q, f), 9u);
  t = w64_shr_jam(t, uint(e - f));
  uvec2 negated = w64_sub(uvec2(0u, 0u), t);
  s = w64_add(s, w64_pick(minus, negated, t));  // below 2^63
  bool zero = (s.x | s.y) == 0u;
  int n = min(int(w64_zeros(s)) - 1, e);
  s = w64_shl(s, uint(n));
  bool positive = zero && minus;
  uint sign = w_pick(positive, 0u, larger.y & TG_SIGN);
  uvec2 sum = f64_pack(sign, w_pick_int(zero, 0, e - n), s);
  bool special = p.y >= TG_INFINITE;
  bool both = q.y == TG_INFINITE;
  bool opposite = minus && both;
  bool nan = f64_nan_size(p);
  bool invalid = nan || opposite;
  return w64_pick(special, w64_pick(invalid, TG_NAN, larger), sum);
}

uvec2 f64_sub(const uvec2 a, const uvec2 b) { return f64_add(a, f64_neg(b)); }

uvec2 f64_mul(const uvec2 a, const uvec2 b) {
  uvec2 p = f64_abs(a);
  uvec2 q = f64_abs(b);
  uint sign = (a.y ^ b.y) & TG_SIGN;
  int e, f;
  uvec2 s = f64_open_normal(p, e);
  uvec2 t = f64_open_normal(q, f);
  uvec4 product = w64_mul(w64_shl(s, 10u), w64_shl(t, 11u));
  bool rest = (product.x | product.y) != 0u;
  s = uvec2(product.z | w_pick(rest, 1u, 0u), product.w);
  bool low = s.y < 0x40000000u;
  s = w64_pick(low, uvec2(s.x << 1u, (s.y << 1u) | (s.x >> 31u)), s);
  uvec2 result = f64_round(sign, e + f - 0x3ff - w_pick_int(low, 1, 0), s);
  bool p_zero = (p.x | p.y) == 0u;
  bool q_zero = (q.x | q.y) == 0u;
  bool zero = p_zero || q_zero;
  bool special = max(p.y, q.y) >= TG_INFINITE;
  bool p_nan = f64_nan_size(p);
  bool q_nan = f64_nan_size(q);
  bool any_nan = p_nan || q_nan;
  bool nan = any_nan || zero;
  uvec2 large = w64_pick(nan, TG_NAN, uvec2(0u, sign | TG_INFINITE));
  return w64_pick(special, large, w64_pick(zero, uvec2(0u, sign), result));
}

// One step of Newton for an estimate x of 2^63 / b or 2^63 / sqrt(a), where d is 2^63 times its relative error. It is rounded towards x.
uint f64_improve(const uint x, const uvec2 d) {
  bool negative = d.y >= TG_SIGN;
  uvec2 size = w64_pick(negative, w64_sub(uvec2(0u, 0u), d), d);
  uint high, low;
  umulExtended(x, (size.x >> 13u) | (size.y << 19u), high, low);
  uint change = high >> 18u;
  return w_pick(negative, x - change, x + change);
}

// Subtracts t from rest, and returns 1, if rest is not less.
uint f64_reduce(const uvec2 t, TG_INOUT(uvec2) rest) {
  bool less = w64_less(rest, t);
  rest = w64_pick(less, rest, w64_sub(rest, t));
  return w_pick(less, 0u, 1u);
}

uvec2 f64_div(const uvec2 a, const uvec2 b) {
  uvec2 p = f64_abs(a);
  uvec2 q = f64_abs(b);
  uint sign = (a.y ^ b.y) & TG_SIGN;
  int e, f;
  uvec2 s = f64_open_normal(p, e);
  uvec2 t = f64_open_normal(q, f);
  bool less = w64_less(s, t);
  e += 0x3fe - f - w_pick_int(less, 1, 0);
  s = w64_shl(s, w_pick(less, 11u, 10u));  // s / (2^11 t) is in [1/2, 1)
  uint high, low;
  // r is 2^63 / divisor, 2 to 5 below it, so that quotients are never too large.
  uint divisor = ((t.y << 11u) | (t.x >> 21u)) | TG_SIGN;
  uint r = min(uint(TG_ROUGH(4611686018427387904.0 / float(divisor))), 0x7fffffffu) << 1u;
  umulExtended(r, divisor, high, low);
  r = f64_improve(r, w64_sub(uvec2(0u, TG_SIGN), uvec2(low, high))) - 3u;
  uint first;  // 31 bits
  umulExtended(s.y, r, first, low);
  uvec2 rest = w64_sub(w64_shl(s, 24u), w64_times(w64_shl(t, 4u), first));
  uint second;  // 24 bits, and what is missing in the first ones
  umulExtended(rest.y, r, second, low);
  rest = w64_sub(w64_shl(rest, 20u), w64_times(t, second));
  second += f64_reduce(t, rest);
  second += f64_reduce(t, rest);
  second += f64_reduce(t, rest);
  bool inexact = (rest.x | rest.y) != 0u;
  uvec2 quotient = f64_round(sign, e, uvec2((second << 8u) | w_pick(inexact, 1u, 0u), first + (second >> 24u)));
  bool p_zero = (p.x | p.y) == 0u;
  bool q_zero = (q.x | q.y) == 0u;
  bool p_large = p.y >= TG_INFINITE;
  bool q_large = q.y >= TG_INFINITE;
  bool p_nan = f64_nan_size(p);
  bool q_nan = f64_nan_size(q);
  bool zeros = p_zero && q_zero;
  bool infinities = p_large && q_large;
  bool nan = p_nan || q_nan;
  nan = nan || zeros;
  nan = nan || infinities;
  bool infinite = p_large || q_zero;
  bool zero = p_zero || q_large;
  uvec2 limit = w64_pick(infinite, uvec2(0u, sign | TG_INFINITE), uvec2(0u, sign));
  bool special = infinite || zero;
  return w64_pick(nan, TG_NAN, w64_pick(special, limit, quotient));
}

// If rest is at least 2 root + 1, adds 1 to the root and keeps rest = square - root^2.
uvec2 f64_raise(const uvec2 root, TG_INOUT(uvec2) rest) {
  uvec2 step = uvec2((root.x << 1u) | 1u, (root.y << 1u) | (root.x >> 31u));
  return w64_add(root, uvec2(f64_reduce(step, rest), 0u));
}

uvec2 f64_sqrt(const uvec2 a) {
  int e;
  uvec2 s = f64_open_normal(f64_abs(a), e);
  int odd = 1 - (e & 1);  // e has a bias of 1023
  s = w64_shl(s, uint(10 + odd));
  // r is 2^63 / sqrt(s), up to 9 below it.
  uint high, low, square;
  uint r = min(uint(TG_ROUGH(70368744177664.0 * inversesqrt(float(max(s.y, 0x40000000u))))), 0x7fffffffu) << 1u;
  umulExtended(r, r, square, low);
  umulExtended(square, s.y, high, low);
  r = f64_improve(r, w64_sub(uvec2(0u, 0x40000000u), uvec2(low, high))) - 6u;
  umulExtended(s.y, r, high, low);
  uint first = (high << 1u) | (low >> 31u);  // 32 bits
  umulExtended(first, first, high, low);
  uvec2 rest = w64_sub(s, uvec2(low, high));
  uint second;  // 23 bits, and what is missing in the first ones
  umulExtended((rest.x >> 9u) | (rest.y << 23u), r, second, low);
  // One less, so that the root is never too large.
  uvec2 root = w64_add(uvec2(first << 23u, first >> 9u), uvec2(second, 0u));
  root = w64_sub(root, uvec2(1u, 0u));
  umulExtended(root.x, root.x, high, low);
  rest = w64_sub(uvec2(0u, s.x << 14u), uvec2(low, high + 2u * root.x * root.y));
  root = f64_raise(root, rest);
  root = f64_raise(root, rest);
  root = f64_raise(root, rest);
  root = f64_raise(root, rest);
  root = f64_raise(root, rest);
  bool inexact = (rest.x | rest.y) != 0u;
  uvec2 result = f64_pack(0u, ((e - 1023 - odd) >> 1) + 1022,
                          uvec2((root.x << 8u) | w_pick(inexact, 1u, 0u), (root.y << 8u) | (root.x >> 24u)));
  bool zero = f64_is_zero(a);
  bool infinite = a.y == TG_INFINITE;
  bool keeps = zero || infinite;
  bool negative = a.y >= TG_SIGN;
  bool nan = f64_is_nan(a);
  bool invalid = negative || nan;
  uvec2 special = w64_pick(zero, a, w64_pick(invalid, TG_NAN, a));
  bool is_special = keeps || invalid;
  return w64_pick(is_special, special, result);
}

uvec2 f64_rsqrt(const uvec2 a) { return f64_div(uvec2(0u, 0x3ff00000u), f64_sqrt(a)); }

// 128-bit integers, from the lowest word on

uvec4 w128_add(const uvec4 a, const uvec4 b) {
  uvec2 low = w64_add(uvec2(a.x, a.y), uvec2(b.x, b.y));
  uvec2 high = w64_add(uvec2(a.z, a.w), uvec2(b.z, b.w));
  if (w64_less(low, uvec2(a.x, a.y))) high = w64_add(high, uvec2(1u, 0u));
  return uvec4(low.x, low.y, high.x, high.y);
}

uvec4 w128_sub(const uvec4 a, const uvec4 b) {
  uvec2 low = w64_sub(uvec2(a.x, a.y), uvec2(b.x, b.y));
  uvec2 high = w64_sub(uvec2(a.z, a.w), uvec2(b.z, b.w));
  if (w64_less(uvec2(a.x, a.y), uvec2(b.x, b.y))) high = w64_sub(high, uvec2(1u, 0u));
  return uvec4(low.x, low.y, high.x, high.y);
}

uvec4 w128_shl(const uvec4 a, const uint n) {
  if (n > 63u) {
    uvec2 moved = w64_shl(uvec2(a.x, a.y), n - 64u);
    return uvec4(0u, 0u, moved.x, moved.y);
  }
  uvec2 low = w64_shl(uvec2(a.x, a.y), n);
  uvec2 high = w64_shl(uvec2(a.z, a.w), n);
  if (n == 0u) return a;
  // The bits of the low half that go to the high one: a.xy >> (64 - n).
  uint m = 64u - n;
  uint k = m & 31u;
  uint up = a.y >> k;
  uint over = (a.x >> k) | ((a.y << 1u) << (31u - k));
  if (m < 32u) return uvec4(low.x, low.y, high.x | over, high.y | up);
  return uvec4(low.x, low.y, high.x | up, high.y);
}

// a >> n for any n; the last bit is set if a bit that was set is lost
uvec4 w128_shr_jam(const uvec4 a, const uint n) {
  uvec2 low = uvec2(a.x, a.y);
  uvec2 high = uvec2(a.z, a.w);
  if (n == 0u) return a;
  if (n > 63u) {
    high = w64_shr_jam(high, n - 64u);
    return uvec4(high.x | ((low.x | low.y) != 0u ? 1u : 0u), high.y, 0u, 0u);
  }
  uvec2 over = w64_shl(high, 64u - n);
  low = w64_shr_jam(low, n);
  uint m = n & 31u;
  uint top = high.y >> m;
  uint next = (high.x >> m) | ((high.y << 1u) << (31u - m));
  high = n < 32u ? uvec2(next, top) : uvec2(top, 0u);
  return uvec4(low.x | over.x, low.y | over.y, high.x, high.y);
}

uvec2 f64_fma(const uvec2 a, const uvec2 b, const uvec2 c) {
  uvec2 p = f64_abs(a);
  uvec2 q = f64_abs(b);
  uvec2 r = f64_abs(c);
  uint sign = (a.y ^ b.y) & TG_SIGN;
  bool zero = (p.x | p.y) == 0u || (q.x | q.y) == 0u;
  if (f64_nan_size(r)) return TG_NAN;
  if (p.y >= TG_INFINITE || q.y >= TG_INFINITE || r.y == TG_INFINITE) {
    bool infinite = p.y >= TG_INFINITE || q.y >= TG_INFINITE;
    if (f64_nan_size(p) || f64_nan_size(q) || (infinite && zero)) return TG_NAN;
    if (!infinite) return c;
    uvec2 product = uvec2(0u, sign | TG_INFINITE);
    return r.y == TG_INFINITE && c.y != product.y ? TG_NAN : product;
  }
  if (zero) return (r.x | r.y) != 0u ? c : uvec2(0u, sign & c.y);
  if ((r.x | r.y) == 0u) return f64_mul(a, b);
  int e, f, g;
  uvec2 s = f64_open_normal(p, e);
  uvec2 t = f64_open_normal(q, f);
  uvec2 u = w64_shl(f64_open_normal(r, g), 10u);
  uvec4 product = w64_mul(w64_shl(s, 10u), w64_shl(t, 11u));
  e += f - 0x3ff;
  if (product.w < 0x40000000u) {
    product = w128_shl(product, 1u);
    e -= 1;
  }
  uvec4 addend = uvec4(0u, 0u, u.x, u.y);
  g -= 1;
  if (e >= g) {
    addend = w128_shr_jam(addend, uint(e - g));
  } else {
    product = w128_shr_jam(product, uint(g - e));
    e = g;
  }
  if (((sign ^ c.y) & TG_SIGN) == 0u) {
    product = w128_add(product, addend);
    if (product.w >= TG_SIGN) {
      product = w128_shr_jam(product, 1u);
      e += 1;
    }
  } else {
    uvec4 difference = w128_sub(product, addend);
    if (difference.w >= TG_SIGN) {
      difference = w128_sub(addend, product);
      sign ^= TG_SIGN;
    }
    uvec2 top = uvec2(difference.z, difference.w);
    uvec2 bottom = uvec2(difference.x, difference.y);
    if ((top.x | top.y | bottom.x | bottom.y) == 0u) return uvec2(0u, 0u);
    uint n = (top.x | top.y) != 0u ? w64_zeros(top) : 64u + w64_zeros(bottom);
    product = w128_shl(difference, n - 1u);
    e -= int(n) - 1;
  }
  uint sticky = (product.x | product.y) != 0u ? 1u : 0u;
  return f64_round(sign, e, uvec2(product.z | sticky, product.w));
}

// comparisons

bool f64_unordered(const uvec2 a, const uvec2 b) {
  bool left = f64_is_nan(a);
  bool right = f64_is_nan(b);
  return left || right;
}

bool f64_equal(const uvec2 a, const uvec2 b) {
  bool nan = f64_is_nan(a);
  bool low = a.x == b.x;
  bool high = a.y == b.y;
  bool same = low && high;
  bool zeros = (a.x | b.x | ((a.y | b.y) & ~TG_SIGN)) == 0u;
  bool equal = same || zeros;
  return equal && !nan;
}

// False if one is NaN.
bool f64_ordered_unequal(const uvec2 a, const uvec2 b) {
  bool equal = f64_equal(a, b);
  bool unordered = f64_unordered(a, b);
  return !equal && !unordered;
}

// a < b where neither is NaN
bool f64_ordered_less(const uvec2 a, const uvec2 b) {
  bool minus = a.y >= TG_SIGN;
  bool other = b.y >= TG_SIGN;
  bool zeros = (a.x | b.x | ((a.y | b.y) & ~TG_SIGN)) == 0u;
  bool alike = minus == other;
  uvec2 left = w64_pick(minus, b, a);
  uvec2 right = w64_pick(minus, a, b);
  bool sizes = w64_less(left, right);
  bool signs = minus && !zeros;
  return alike ? sizes : signs;
}

bool f64_less(const uvec2 a, const uvec2 b) {
  bool unordered = f64_unordered(a, b);
  bool less = f64_ordered_less(a, b);
  return less && !unordered;
}

bool f64_less_equal(const uvec2 a, const uvec2 b) {
  bool unordered = f64_unordered(a, b);
  bool greater = f64_ordered_less(b, a);
  return !greater && !unordered;
}

uvec2 f64_min(const uvec2 a, const uvec2 b) { return w64_pick(f64_less(b, a), b, a); }
uvec2 f64_max(const uvec2 a, const uvec2 b) { return w64_pick(f64_less(a, b), b, a); }
// These return the number if the other operand is NaN.
uvec2 f64_number_min(const uvec2 a, const uvec2 b) { return w64_pick(f64_is_nan(a), b, f64_min(a, b)); }
uvec2 f64_number_max(const uvec2 a, const uvec2 b) { return w64_pick(f64_is_nan(a), b, f64_max(a, b)); }

uvec2 f64_sign(const uvec2 a) {
  bool zero = f64_is_zero(a);
  bool nan = f64_is_nan(a);
  bool keeps = zero || nan;
  return w64_pick(keeps, a, uvec2(0u, (a.y & TG_SIGN) | 0x3ff00000u));
}

// rounding to integers

// Mask of the bits of a fraction in a number with exponent field e, 0 from 1075 on. e is at least 1023.
uvec2 f64_fraction_mask(const int e) {
  uint n = uint(max(1075 - e, 0));
  bool small = n < 32u;
  uint part = (1u << (n & 31u)) - 1u;
  return uvec2(w_pick(small, part, 0xffffffffu), w_pick(small, 0u, part));
}

// The integer next to a towards 0, or away from it.
uvec2 f64_whole(const uvec2 a, const bool away) {
  int e = int((a.y >> 20u) & 0x7ffu);
  uvec2 mask = f64_fraction_mask(max(e, 1023));
  uvec2 up = w64_add(a, w64_pick(away, mask, uvec2(0u, 0u)));
  uvec2 cut = uvec2(up.x & ~mask.x, up.y & ~mask.y);
  bool zero = f64_is_zero(a);
  bool one = away && !zero;
  bool small = e < 1023;
  uvec2 fraction = uvec2(0u, (a.y & TG_SIGN) | w_pick(one, 0x3ff00000u, 0u));
  return w64_pick(small, fraction, cut);
}

uvec2 f64_trunc(const uvec2 a) { return f64_whole(a, false); }
uvec2 f64_floor(const uvec2 a) { return f64_whole(a, a.y >= TG_SIGN); }
uvec2 f64_ceil(const uvec2 a) { return f64_whole(a, a.y < TG_SIGN); }

uvec2 f64_round_even(const uvec2 a) {
  int e = int((a.y >> 20u) & 0x7ffu);
  uvec2 mask = f64_fraction_mask(max(e, 1023));
  uvec2 unit = w64_add(mask, uvec2(1u, 0u));
  uvec2 half_unit = uvec2((unit.x >> 1u) | (unit.y << 31u), unit.y >> 1u);
  uvec2 up = w64_add(a, half_unit);
  up = uvec2(up.x & ~mask.x, up.y & ~mask.y);
  bool low = (a.x & mask.x) == half_unit.x;
  bool high = (a.y & mask.y) == half_unit.y;
  bool tie = low && high;
  // Of two integers at the same distance, the even one. 1.5 has no bit for its unit: it becomes 2 anyway.
  bool inside = e != 1023;
  bool clears = tie && inside;
  uvec2 even = uvec2(up.x & ~unit.x, up.y & ~unit.y);
  uvec2 large = w64_pick(clears, even, up);
  bool above = (a.x | (a.y & 0xfffffu)) != 0u;
  bool half_or_more = e == 1022;
  bool one = half_or_more && above;
  bool whole = (mask.x | mask.y) == 0u;
  bool small = e < 1023;
  uvec2 fraction = uvec2(0u, (a.y & TG_SIGN) | w_pick(one, 0x3ff00000u, 0u));
  return w64_pick(small, fraction, w64_pick(whole, a, large));
}

uvec2 f64_clamp(const uvec2 a, const uvec2 low, const uvec2 high) { return f64_min(f64_max(a, low), high); }
uvec2 f64_step(const uvec2 edge, const uvec2 a) {
  bool less = f64_less(a, edge);
  return uvec2(0u, w_pick(less, 0u, 0x3ff00000u));
}
uvec2 f64_mix(const uvec2 a, const uvec2 b, const uvec2 t) {
  uvec2 left = f64_mul(a, f64_sub(uvec2(0u, 0x3ff00000u), t));
  return f64_add(left, f64_mul(b, t));
}
uvec2 f64_fract(const uvec2 a) { return f64_sub(a, f64_floor(a)); }
uvec2 f64_mod(const uvec2 a, const uvec2 b) { return f64_sub(a, f64_mul(b, f64_floor(f64_div(a, b)))); }

// conversions

uvec2 f64_from_uint(const uint a) {
  bool zero = a == 0u;
  uint n = uint(31 - findMSB(a | 1u));
  uint s = a << n;  // first bit at 31
  return uvec2(s << 21u, w_pick(zero, 0u, ((1053u - n) << 20u) + (s >> 11u)));
}

uvec2 f64_from_int(const int a) {
  bool negative = a < 0;
  uint bits = uint(a);
  uvec2 size = f64_from_uint(w_pick(negative, 0u - bits, bits));
  return uvec2(size.x, size.y | w_pick(negative, TG_SIGN, 0u));
}

// The integer part of the absolute value, at most 2^32 - 1.
uint f64_size(const uvec2 a) {
  int e = int((a.y >> 20u) & 0x7ffu);
  uint s = TG_SIGN | ((a.y & 0xfffffu) << 11u) | (a.x >> 21u);
  bool small = e < 1023;
  bool large = e > 1054;
  uint size = s >> uint(clamp(1054 - e, 0, 31));
  return w_pick(small, 0u, w_pick(large, 0xffffffffu, size));
}

// Out of range: the nearest integer. NaN gives 0.
uint f64_to_uint(const uvec2 a) {
  bool negative = a.y >= TG_SIGN;
  bool nan = f64_is_nan(a);
  bool none = negative || nan;
  return w_pick(none, 0u, f64_size(a));
}
int f64_to_int(const uvec2 a) {
  bool negative = a.y >= TG_SIGN;
  bool nan = f64_is_nan(a);
  uint most = w_pick(negative, 0x80000000u, 0x7fffffffu);
  uint size = min(f64_size(a), most);
  uint value = w_pick(negative, 0u - size, size);
  return int(w_pick(nan, 0u, value));
}

// 64-bit integers, low word first; f64_to_uint64 and f64_to_int64 are for numbers in range.
uvec2 f64_from_uint64(const uvec2 a) {
  if ((a.x | a.y) == 0u) return a;
  uint n = w64_zeros(a);
  uvec2 t = w64_shl(a, n);
  uvec2 s = uvec2((t.x >> 1u) | (t.x & 1u) | (t.y << 31u), t.y >> 1u);
  return f64_pack(0u, 1085 - int(n), s);
}

uvec2 f64_from_int64(const uvec2 a) {
  if (a.y < TG_SIGN) return f64_from_uint64(a);
  return f64_neg(f64_from_uint64(w64_sub(uvec2(0u, 0u), a)));
}

uvec2 f64_to_uint64(const uvec2 a) {
  int e = int((a.y >> 20u) & 0x7ffu);
  if (e < 1023) return uvec2(0u, 0u);
  uvec2 s = uvec2(a.x, (a.y & 0xfffffu) | 0x100000u);
  if (e > 1075) return w64_shl(s, uint(min(e, 1138) - 1075));
  s = w64_shl(s, 11u);
  uint n = uint(1086 - e);  // 11 to 63
  uint m = n & 31u;
  if (n > 31u) return uvec2(s.y >> m, 0u);
  return uvec2((s.x >> m) | ((s.y << 1u) << (31u - m)), s.y >> m);
}

uvec2 f64_to_int64(const uvec2 a) {
  uvec2 size = f64_to_uint64(a);
  return a.y >= TG_SIGN ? w64_sub(uvec2(0u, 0u), size) : size;
}

// The bits of an f32 as f64, and back.
uvec2 f64_from_float(const uint a) {
  uint sign = a & TG_SIGN;
  uint field = (a >> 23u) & 0xffu;
  uint m = a & 0x7fffffu;
  bool subnormal = field == 0u;
  uint n = uint(23 - findMSB(m | 1u));
  uint shifted = (m << (n & 31u)) & 0x7fffffu;
  uint e = w_pick(subnormal, 897u - n, field + 896u);
  m = w_pick(subnormal, shifted, m);
  bool zero = (a & ~TG_SIGN) == 0u;
  uvec2 result = uvec2(m << 29u, (e << 20u) | (m >> 3u));
  bool large = field == 0xffu;
  bool nan = large && m != 0u;
  uint y = w_pick(large, TG_INFINITE, result.y);
  return uvec2(w_pick(nan, 0u, result.x), sign | w_pick(zero, 0u, w_pick(nan, 0x7ff80000u, y)));
}

// The product of two floats. It has at most 48 bits, so it is exact.
uvec2 f64_float_product(const uint a, const uint b) {
  uint sign = (a ^ b) & TG_SIGN;
  uint p = a & ~TG_SIGN;
  uint q = b & ~TG_SIGN;
  uint high, low;
  umulExtended((p & 0x7fffffu) | 0x800000u, (q & 0x7fffffu) | 0x800000u, high, low);
  bool twice = high >= 0x8000u;  // the first bit is at 47, otherwise at 46
  uint n = w_pick(twice, 5u, 6u);
  uint e = (p >> 23u) + (q >> 23u) + w_pick(twice, 769u, 768u);
  uint y = (e << 20u) + ((high << n) | (low >> (32u - n)));
  uint least = min(p, q);
  bool zero = least == 0u;
  uvec2 product = uvec2(w_pick(zero, 0u, low << n), sign | w_pick(zero, 0u, y));
  bool small = least - 1u < 0x7fffffu;  // subnormal
  bool large = max(p, q) >= 0x7f800000u;
  if (small || large) product = f64_mul(f64_from_float(a), f64_from_float(b));
  return product;
}

uint f64_to_float(const uvec2 a) {
  uint sign = a.y & TG_SIGN;
  uvec2 p = f64_abs(a);
  int e = int(p.y >> 20u) - 897;  // one less than the field
  // 24 bits and 7 more, the first at 30; the last one stands for all lower ones.
  bool rest = (p.x & 0x3fffffu) != 0u;
  uint s = 0x40000000u | ((p.y & 0xfffffu) << 10u) | (p.x >> 22u) | w_pick(rest, 1u, 0u);
  uint n = uint(clamp(-e, 0, 31));
  bool loses = (s & ((1u << n) - 1u)) != 0u;
  s = (s >> n) | w_pick(loses, 1u, 0u);
  bool tie = (s & 0x7fu) == 0x40u;
  s = ((s + 0x40u) >> 7u) & ~w_pick(tie, 1u, 0u);
  uint result = (uint(max(e, 0)) << 23u) + s;
  bool large = e > 253;
  bool nan = f64_nan_size(p);
  return sign | w_pick(nan, 0x7fc00000u, w_pick(large, 0x7f800000u, result));
}
