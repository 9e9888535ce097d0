// Verification of many Ed25519 signatures (RFC 8032) as one task, on the CPU or on a device.
//
// Both sides run the same formulas of the curve, each in its own arithmetic modulo 2^255 - 19: the
// CPU in limbs of 51 bits, the device in limbs of 13 bits, whose products fit into 32 bits. The
// device does not get the formulas as a program of its own: they are recorded once as a list of
// additions and multiplications, which is the same for all signatures, and the shader runs the
// list.
//
// The hash of each message is computed when its signature is added: it is a hundredth of the work.
// This is an example of a task, not a library for secrets: signing takes times that depend on keys.
#include <topograd/api/hybrid.hpp>

#include "sample.hpp"
#include "task_times.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tg = topograd;
using tg::hybrid::Override;

__extension__ typedef unsigned __int128 Wide;
using Bytes = std::vector<std::uint8_t>;
// 256 bits, the lowest word first.
using Number = std::array<std::uint64_t, 4>;

// d, the square root of -1, and the base point modulo p = 2^255 - 19; the order of the base point
// (RFC 8032, 5.1).
constexpr Number kD = {0x75eb4dca135978a3, 0x00700a4d4141d8ab, 0x8cc740797779e898,
                       0x52036cee2b6ffe73};
constexpr Number kRoot = {0xc4ee1b274a0ea0b0, 0x2f431806ad2fe478, 0x2b4d00993dfbd7a7,
                          0x2b8324804fc1df0b};
constexpr Number kBaseX = {0xc9562d608f25d51a, 0x692cc7609525a7b2, 0xc0a4e231fdd6dc5c,
                           0x216936d3cd6e53fe};
constexpr Number kBaseY = {0x6666666666666658, 0x6666666666666666, 0x6666666666666666,
                           0x6666666666666666};
constexpr Number kOrder = {0x5812631a5cf5d3ed, 0x14def9dea2f79cd6, 0, 0x1000000000000000};

bool less(const Number& a, const Number& b) {
  return std::lexicographical_compare(a.rbegin(), a.rend(), b.rbegin(), b.rend());
}
bool bit(const Number& a, std::size_t k) { return (a[k / 64] >> (k % 64) & 1) != 0; }
Number number(std::span<const std::uint8_t> bytes) {
  Number out = {};
  for (std::size_t k = 0; k < 32; ++k) out[k / 8] |= std::uint64_t{bytes[k]} << (8 * (k % 8));
  return out;
}
void append(Bytes& bytes, const Number& a) {
  for (std::size_t k = 0; k < 32; ++k)
    bytes.push_back(static_cast<std::uint8_t>(a[k / 8] >> (8 * (k % 8))));
}

// The remainder of 512 bits by the order of the base point.
Number modulo_order(const std::array<std::uint64_t, 8>& a) {
  Number rest = {};
  for (std::size_t k = 512; k-- > 0;) {
    for (std::size_t w = 3; w > 0; --w) rest[w] = rest[w] << 1 | rest[w - 1] >> 63;
    rest[0] = rest[0] << 1 | (a[k / 64] >> (k % 64) & 1);
    if (less(rest, kOrder)) continue;
    std::uint64_t borrow = 0;
    for (std::size_t w = 0; w < 4; ++w) {
      const Wide from = Wide{rest[w]}, take = Wide{kOrder[w]} + borrow;
      rest[w] = static_cast<std::uint64_t>(from - take);
      borrow = from < take ? 1 : 0;
    }
  }
  return rest;
}

// (a b + c) modulo the order.
Number multiply_add(const Number& a, const Number& b, const Number& c) {
  std::array<std::uint64_t, 8> sum = {c[0], c[1], c[2], c[3], 0, 0, 0, 0};
  for (std::size_t i = 0; i < 4; ++i) {
    std::uint64_t carry = 0;
    for (std::size_t j = 0; j < 4 || (i + j < 8 && carry != 0); ++j) {
      const Wide t = Wide{a[i]} * (j < 4 ? b[j] : 0) + sum[i + j] + carry;
      sum[i + j] = static_cast<std::uint64_t>(t);
      carry = static_cast<std::uint64_t>(t >> 64);
    }
  }
  return modulo_order(sum);
}

// The first 64 bits of the fractional parts of the cube roots of the first 80 primes (FIPS 180-4,
// 4.2.3).
constexpr std::array<std::uint64_t, 80> kRounds = {
    0x428a2f98d728ae22, 0x7137449123ef65cd, 0xb5c0fbcfec4d3b2f, 0xe9b5dba58189dbbc,
    0x3956c25bf348b538, 0x59f111f1b605d019, 0x923f82a4af194f9b, 0xab1c5ed5da6d8118,
    0xd807aa98a3030242, 0x12835b0145706fbe, 0x243185be4ee4b28c, 0x550c7dc3d5ffb4e2,
    0x72be5d74f27b896f, 0x80deb1fe3b1696b1, 0x9bdc06a725c71235, 0xc19bf174cf692694,
    0xe49b69c19ef14ad2, 0xefbe4786384f25e3, 0x0fc19dc68b8cd5b5, 0x240ca1cc77ac9c65,
    0x2de92c6f592b0275, 0x4a7484aa6ea6e483, 0x5cb0a9dcbd41fbd4, 0x76f988da831153b5,
    0x983e5152ee66dfab, 0xa831c66d2db43210, 0xb00327c898fb213f, 0xbf597fc7beef0ee4,
    0xc6e00bf33da88fc2, 0xd5a79147930aa725, 0x06ca6351e003826f, 0x142929670a0e6e70,
    0x27b70a8546d22ffc, 0x2e1b21385c26c926, 0x4d2c6dfc5ac42aed, 0x53380d139d95b3df,
    0x650a73548baf63de, 0x766a0abb3c77b2a8, 0x81c2c92e47edaee6, 0x92722c851482353b,
    0xa2bfe8a14cf10364, 0xa81a664bbc423001, 0xc24b8b70d0f89791, 0xc76c51a30654be30,
    0xd192e819d6ef5218, 0xd69906245565a910, 0xf40e35855771202a, 0x106aa07032bbd1b8,
    0x19a4c116b8d2d0c8, 0x1e376c085141ab53, 0x2748774cdf8eeb99, 0x34b0bcb5e19b48a8,
    0x391c0cb3c5c95a63, 0x4ed8aa4ae3418acb, 0x5b9cca4f7763e373, 0x682e6ff3d6b2b8a3,
    0x748f82ee5defb2fc, 0x78a5636f43172f60, 0x84c87814a1f0ab72, 0x8cc702081a6439ec,
    0x90befffa23631e28, 0xa4506cebde82bde9, 0xbef9a3f7b2c67915, 0xc67178f2e372532b,
    0xca273eceea26619c, 0xd186b8c721c0c207, 0xeada7dd6cde0eb1e, 0xf57d4f7fee6ed178,
    0x06f067aa72176fba, 0x0a637dc5a2c898a6, 0x113f9804bef90dae, 0x1b710b35131c471b,
    0x28db77f523047d84, 0x32caab7b40c72493, 0x3c9ebe0a15c9bebc, 0x431d67c49c100d4c,
    0x4cc5d4becb3e42b6, 0x597f299cfc657e2a, 0x5fcb6fab3ad6faec, 0x6c44198c4a475817};

// SHA-512 (FIPS 180-4): 64 bytes, as a number with the first byte lowest.
std::array<std::uint64_t, 8> sha512(Bytes text) {
  using std::rotr;
  std::array<std::uint64_t, 8> h = {0x6a09e667f3bcc908, 0xbb67ae8584caa73b, 0x3c6ef372fe94f82b,
                                    0xa54ff53a5f1d36f1, 0x510e527fade682d1, 0x9b05688c2b3e6c1f,
                                    0x1f83d9abfb41bd6b, 0x5be0cd19137e2179};
  const std::uint64_t bits = 8 * text.size();
  text.push_back(0x80);
  while (text.size() % 128 != 120) text.push_back(0);
  for (std::size_t k = 0; k < 8; ++k)
    text.push_back(static_cast<std::uint8_t>(bits >> (8 * (7 - k))));
  for (std::size_t begin = 0; begin < text.size(); begin += 128) {
    std::array<std::uint64_t, 80> w = {};
    for (std::size_t k = 0; k < 128; ++k) w[k / 8] = w[k / 8] << 8 | text[begin + k];
    for (std::size_t t = 16; t < 80; ++t) {
      const std::uint64_t s0 = rotr(w[t - 15], 1) ^ rotr(w[t - 15], 8) ^ (w[t - 15] >> 7);
      const std::uint64_t s1 = rotr(w[t - 2], 19) ^ rotr(w[t - 2], 61) ^ (w[t - 2] >> 6);
      w[t] = s1 + w[t - 7] + s0 + w[t - 16];
    }
    std::array<std::uint64_t, 8> v = h;  // a, b, ..., h
    for (std::size_t t = 0; t < 80; ++t) {
      const std::uint64_t S1 = rotr(v[4], 14) ^ rotr(v[4], 18) ^ rotr(v[4], 41);
      const std::uint64_t choice = (v[4] & v[5]) ^ (~v[4] & v[6]);
      const std::uint64_t t1 = v[7] + S1 + choice + kRounds[t] + w[t];
      const std::uint64_t S0 = rotr(v[0], 28) ^ rotr(v[0], 34) ^ rotr(v[0], 39);
      const std::uint64_t majority = (v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]);
      v = {t1 + S0 + majority, v[0], v[1], v[2], v[3] + t1, v[4], v[5], v[6]};
    }
    for (std::size_t k = 0; k < 8; ++k) h[k] += v[k];
  }
  for (std::uint64_t& word : h) {  // big endian
    std::uint64_t turned = 0;
    for (int k = 0; k < 8; ++k) turned |= (word >> (8 * k) & 255) << (8 * (7 - k));
    word = turned;
  }
  return h;
}

// A number modulo p in five limbs of 51 bits, which may be a little larger.
class Field {
 public:
  Field() = default;
  explicit Field(const Number& a)
      : limbs_{a[0] & kMask, (a[0] >> 51 | a[1] << 13) & kMask, (a[1] >> 38 | a[2] << 26) & kMask,
               (a[2] >> 25 | a[3] << 39) & kMask, a[3] >> 12 & kMask} {}

  friend Field operator+(const Field& a, const Field& b) {
    Field out;
    for (std::size_t k = 0; k < 5; ++k) out.limbs_[k] = a.limbs_[k] + b.limbs_[k];
    return out.carried();
  }
  friend Field operator-(const Field& a, const Field& b) {
    Field out;  // a + 4 p - b
    for (std::size_t k = 0; k < 5; ++k)
      out.limbs_[k] = a.limbs_[k] + (4 * (kMask - (k == 0 ? 18 : 0))) - b.limbs_[k];
    return out.carried();
  }
  friend Field operator*(const Field& a, const Field& b) {
    const auto& [a0, a1, a2, a3, a4] = a.limbs_;
    const auto& [b0, b1, b2, b3, b4] = b.limbs_;
    // 2^255 = 19.
    const std::uint64_t c1 = 19 * b1, c2 = 19 * b2, c3 = 19 * b3, c4 = 19 * b4;
    const Wide sums[] = {
        Wide{a0} * b0 + Wide{a1} * c4 + Wide{a2} * c3 + Wide{a3} * c2 + Wide{a4} * c1,
        Wide{a0} * b1 + Wide{a1} * b0 + Wide{a2} * c4 + Wide{a3} * c3 + Wide{a4} * c2,
        Wide{a0} * b2 + Wide{a1} * b1 + Wide{a2} * b0 + Wide{a3} * c4 + Wide{a4} * c3,
        Wide{a0} * b3 + Wide{a1} * b2 + Wide{a2} * b1 + Wide{a3} * b0 + Wide{a4} * c4,
        Wide{a0} * b4 + Wide{a1} * b3 + Wide{a2} * b2 + Wide{a3} * b1 + Wide{a4} * b0};
    Field out;
    Wide carry = 0;
    for (std::size_t k = 0; k < 5; ++k) {
      carry += sums[k];
      out.limbs_[k] = static_cast<std::uint64_t>(carry) & kMask;
      carry >>= 51;
    }
    carry = carry * 19 + out.limbs_[0];
    out.limbs_[0] = static_cast<std::uint64_t>(carry) & kMask;
    out.limbs_[1] += static_cast<std::uint64_t>(carry >> 51);
    return out;
  }
  // The remainder in [0, p).
  Number reduced() const {
    Field f = carried().carried();
    std::uint64_t carry = 19;  // 2^255 is reached if the number is at least p
    for (const std::uint64_t limb : f.limbs_) carry = (limb + carry) >> 51;
    carry *= 19;
    for (std::uint64_t& limb : f.limbs_) {
      carry += limb;
      limb = carry & kMask;
      carry >>= 51;
    }
    const auto& l = f.limbs_;
    return {l[0] | l[1] << 51, l[1] >> 13 | l[2] << 38, l[2] >> 26 | l[3] << 25,
            l[3] >> 39 | l[4] << 12};
  }
  bool is_zero() const { return reduced() == Number{}; }

 private:
  static constexpr std::uint64_t kMask = (std::uint64_t{1} << 51) - 1;

  Field carried() const {
    Field out = *this;
    std::uint64_t carry = 0;
    for (std::uint64_t& limb : out.limbs_) {
      carry += limb;
      limb = carry & kMask;
      carry >>= 51;
    }
    out.limbs_[0] += 19 * carry;
    return out;
  }

  std::array<std::uint64_t, 5> limbs_ = {};
};

// Extended coordinates: the point (x / z, y / z), with t = x y / z.
template <class F>
struct Point {
  F x, y, z, t;
};

// Hisil et al. 2008, 3.1: holds for all points, also equal ones.
template <class F>
Point<F> add(const Point<F>& p, const Point<F>& q, const F& two_d) {
  const F a = (p.y - p.x) * (q.y - q.x), b = (p.y + p.x) * (q.y + q.x);
  const F c = p.t * two_d * q.t, zz = p.z * q.z, d = zz + zz;
  const F e = b - a, f = d - c, g = d + c, h = b + a;
  return {e * f, g * h, f * g, e * h};
}

template <class F>
Point<F> twice(const Point<F>& p) {
  const F a = p.x * p.x, b = p.y * p.y, zz = p.z * p.z, sum = p.x + p.y;
  const F h = a + b, e = h - sum * sum, g = a - b, f = g + (zz + zz);
  return {e * f, g * h, f * g, e * h};
}

template <class F>
F squares(F a, int times) {
  for (int k = 0; k < times; ++k) a = a * a;
  return a;
}

// a^(2^252 - 3) and a^11.
template <class F>
std::pair<F, F> powers(const F& a) {
  const F a2 = a * a, a9 = squares(a2, 2) * a, a11 = a9 * a2;
  const F x5 = a11 * a11 * a9;  // a^(2^5 - 1)
  const F x10 = squares(x5, 5) * x5, x20 = squares(x10, 10) * x10, x40 = squares(x20, 20) * x20;
  const F x50 = squares(x40, 10) * x10, x100 = squares(x50, 50) * x50;
  const F x200 = squares(x100, 100) * x100, x250 = squares(x200, 50) * x50;
  return {squares(x250, 2) * a, a11};
}

// a^(p - 2), with p - 2 = 8 (2^252 - 3) + 3.
template <class F>
F inverse(const F& a) {
  const F a3 = a * a * a;
  return squares(powers(a).first, 3) * a3;
}

// The formulas of a verification. A side supplies constants, the key's y, and the two steps that
// depend on the data: the choice of a root, and the choice of a point for a bit of both factors.
template <class F, class Side>
void verify(Side& side) {
  const F one = side.one(), zero = side.zero();
  // The key's x = u v^3 (u v^7)^((p - 5) / 8), times 1 or a root of -1 (RFC 8032, 5.1.3).
  const F y = side.key(), yy = y * y, u = yy - one, v = yy * side.d() + one;
  const F v3 = v * v * v, x = u * v3 * powers(u * v3 * v3 * v).first, vxx = v * x * x;
  const F other = x * side.root_of_minus_one();
  const F minus_x = side.choose_root(vxx - u, vxx + u, x, other, zero - x, zero - other);
  const F two_d = side.d() + side.d();
  const Point<F> base{side.base_x(), side.base_y(), one, side.base_x() * side.base_y()};
  const Point<F> minus_key{minus_x, y, one, minus_x * y};
  side.set_table({Point<F>{zero, one, one, zero}, base, minus_key, add(base, minus_key, two_d)});
  Point<F> sum{zero, one, one, zero};
  for (std::uint32_t k = 253; k-- > 0;) {
    sum = twice(sum);
    sum = add(sum, side.point(k), two_d);
  }
  const F z = inverse(sum.z);
  side.compare(sum.x * z, sum.y * z);
}

// All that a verification reads: 32 words of a signature.
struct Signature {
  Number key, r, s, hash;
};

Number without_sign(Number a) {
  a[3] &= ~(std::uint64_t{1} << 63);
  return a;
}

// One verification on the CPU.
class CpuSide {
 public:
  explicit CpuSide(const Signature& of) : of_(of) {
    // Numbers that are not reduced are no encodings.
    valid_ = less(of.s, kOrder) && Field(of.key).reduced() == without_sign(of.key);
  }
  bool valid() const { return valid_; }

  Field one() const { return Field({1}); }
  Field zero() const { return Field(); }
  Field d() const { return Field(kD); }
  Field root_of_minus_one() const { return Field(kRoot); }
  Field base_x() const { return Field(kBaseX); }
  Field base_y() const { return Field(kBaseY); }
  Field key() const { return Field(of_.key); }
  // The root whose last bit is not the key's sign: the negative of the key's x.
  Field choose_root(const Field& minus, const Field& plus, const Field& x, const Field& other,
                    const Field& minus_x, const Field& minus_other) {
    const bool first = minus.is_zero();
    valid_ = valid_ && (first || plus.is_zero());
    const Number root = (first ? x : other).reduced();
    const bool sign = bit(of_.key, 255);
    valid_ = valid_ && !(sign && root == Number{});
    if (bit(root, 0) != sign) return first ? x : other;
    return first ? minus_x : minus_other;
  }
  void set_table(const std::array<Point<Field>, 4>& table) { table_ = table; }
  const Point<Field>& point(std::uint32_t k) const {
    return table_[(bit(of_.s, k) ? 1 : 0) + (bit(of_.hash, k) ? 2 : 0)];
  }
  void compare(const Field& x, const Field& y) {
    Number encoded = y.reduced();
    encoded[3] |= x.reduced()[0] << 63;
    valid_ = valid_ && encoded == of_.r;
  }

 private:
  const Signature& of_;
  bool valid_ = true;
  std::array<Point<Field>, 4> table_;
};

// The list of the device: operations on registers of 20 limbs of 13 bits.
struct Tape {
  enum Op : std::uint32_t { multiply, plus, minus, root, pick, finish };

  std::vector<std::uint32_t> code;   // op, target, operands a and b, a byte each
  std::vector<std::uint32_t> start;  // the limbs of all registers at the beginning
  std::uint32_t key = 0;             // register of the key's y

  std::uint32_t registers() const { return static_cast<std::uint32_t>(start.size() / 20); }
  void add(Op op, std::uint32_t to, std::uint32_t a, std::uint32_t b) {
    code.push_back(std::uint32_t{op} << 24 | to << 16 | a << 8 | b);
  }
};

// Records the operations of a verification.
class TapeSide {
 public:
  // A number that is known when the list runs: a register that is free again when nobody uses it.
  class Traced {
   public:
    Traced() = default;
    friend Traced operator*(const Traced& a, const Traced& b) { return a.by(Tape::multiply, b); }
    friend Traced operator+(const Traced& a, const Traced& b) { return a.by(Tape::plus, b); }
    friend Traced operator-(const Traced& a, const Traced& b) { return a.by(Tape::minus, b); }

   private:
    friend class TapeSide;
    struct Register {
      TapeSide& side;
      std::uint32_t number;
      Register(TapeSide& of, std::uint32_t n) : side(of), number(n) {}
      ~Register() { side.free_.push_back(number); }
      Register(const Register&) = delete;
      Register& operator=(const Register&) = delete;
    };
    explicit Traced(std::shared_ptr<Register> is) : is_(std::move(is)) {}
    Traced by(Tape::Op op, const Traced& b) const {
      Traced out = is_->side.fresh();
      is_->side.tape_.add(op, out.number(), number(), b.number());
      return out;
    }
    std::uint32_t number() const { return is_->number; }

    std::shared_ptr<Register> is_;
  };

  Traced one() { return one_; }
  Traced zero() { return zero_; }
  Traced d() { return d_; }
  Traced root_of_minus_one() { return constant(kRoot); }
  Traced base_x() { return base_x_; }
  Traced base_y() { return base_y_; }
  Traced key() {
    Traced out = constant({});
    tape_.key = out.number();
    return out;
  }
  Traced choose_root(const Traced& minus, const Traced& plus, const Traced& x, const Traced& other,
                     const Traced& minus_x, const Traced& minus_other) {
    const Traced* const all[] = {&minus, &plus, &x, &other, &minus_x, &minus_other};
    for (std::uint32_t k = 0; k < 6; ++k) copy(kTable + k, *all[k]);
    Traced out = fresh();
    tape_.add(Tape::root, out.number(), kTable, 0);
    return out;
  }
  void set_table(const std::array<Point<Traced>, 4>& table) {
    for (std::uint32_t k = 0; k < 4; ++k) {
      const Traced* const all[] = {&table[k].x, &table[k].y, &table[k].z, &table[k].t};
      for (std::uint32_t c = 0; c < 4; ++c) copy(kTable + 4 * k + c, *all[c]);
    }
  }
  Point<Traced> point(std::uint32_t k) {
    tape_.add(Tape::pick, picked_[0].number(), kTable, k);
    return {picked_[0], picked_[1], picked_[2], picked_[3]};
  }
  void compare(const Traced& x, const Traced& y) {
    tape_.add(Tape::finish, 0, x.number(), y.number());
  }

  static Tape record() {
    TapeSide side;
    verify<Traced>(side);
    return std::move(side.tape_);
  }

 private:
  static constexpr std::uint32_t kTable = 4;

  TapeSide() = default;

  Traced fresh() {
    std::uint32_t number = tape_.registers();
    if (free_.empty()) {
      tape_.start.resize(tape_.start.size() + 20);
    } else {
      number = free_.back();
      free_.pop_back();
    }
    return Traced(std::make_shared<Traced::Register>(*this, number));
  }
  Traced constant(const Number& a) {
    tape_.start.resize(tape_.start.size() + 20);
    const std::uint32_t number = tape_.registers() - 1;
    for (std::size_t k = 0; k < 255; ++k)
      tape_.start[20 * number + k / 13] |= (bit(a, k) ? 1u : 0u) << (k % 13);
    constants_.push_back(Traced(std::make_shared<Traced::Register>(*this, number)));
    return constants_.back();
  }
  void copy(std::uint32_t to, const Traced& from) {
    tape_.add(Tape::plus, to, from.number(), zero_.number());
  }

  std::vector<std::uint32_t> free_;
  Tape tape_;
  std::vector<Traced> constants_;  // their registers are never free
  // Registers 0 to 3 and 4 to 19.
  std::array<Traced, 4> picked_ = {constant({}), constant({}), constant({}), constant({})};
  std::array<Traced, 16> table_ = [this] {
    std::array<Traced, 16> out;
    for (Traced& one : out) one = constant({});
    return out;
  }();
  Traced zero_ = constant({}), one_ = constant({1}), d_ = constant(kD), base_x_ = constant(kBaseX),
         base_y_ = constant(kBaseY);
};

// Each item is one signature.
class Verify final : public tg::hybrid::Task {
 public:
  Verify(std::span<const Signature> signatures, std::span<std::uint32_t> valid,
         Override where = Override::none, std::uint64_t threads = 0)
      : signatures_(signatures), valid_(valid), where_(where), threads_(threads) {}

  tg::hybrid::TaskShape shape() const override {
    return {.kernel = {0x6564323535, threads_},  // a history for each number of threads
            .operation = "ed25519",
            .size = signatures_.size(),
            .bytes_in = signatures_.size_bytes(),
            .bytes_out = valid_.size_bytes(),
            .features = {.operations = 2e6, .bytes = sizeof(Signature) + 4},
            .where = where_};
  }
  std::uint64_t threads() const override { return threads_; }

  void run_on_cpu(const tg::hybrid::CpuThreads& threads, tg::hybrid::Items items) override {
    threads.for_ranges(items.count(), 4, [&](std::size_t begin, std::size_t end) {
      for (std::size_t k = items.begin + begin; k < items.begin + end; ++k) {
        CpuSide side(signatures_[k]);
        verify<Field>(side);
        valid_[k] = side.valid() ? 1 : 0;
      }
    });
  }

  std::optional<tg::hybrid::DeviceProgram> program(tg::hybrid::Items items) override {
    const Tape& list = tape();
    tg::hybrid::DeviceProgram made{.name = "ed25519", .glsl = shader(), .items = items.count()};
    const auto part = [&](auto all) { return all.subspan(items.begin, items.count()); };
    const auto input = [](const auto& all) {
      return tg::hybrid::DeviceArray{.read = {std::as_bytes(std::span(all))}};
    };
    made.arrays = {
        input(part(signatures_)),
        input(list.code),
        input(list.start),
        {.written = {std::as_writable_bytes(part(valid_))}, .element = tg::hybrid::Element::u32}};
    const std::uint32_t words[] = {static_cast<std::uint32_t>(list.code.size()), list.key};
    const auto bytes = std::as_bytes(std::span(words));
    made.constants.assign(bytes.begin(), bytes.end());
    return made;
  }

 private:
  static const Tape& tape() {
    static const Tape kTape = TapeSide::record();
    return kTape;
  }
  static const std::string& shader() {
    static const std::string kText =
        "#version 450\n#define REGISTERS " + std::to_string(tape().registers()) + "\n" + kShader;
    return kText;
  }

  // Limbs are below 2^13 + 256 after each operation, so that a sum of 20 products fits into 32
  // bits.
  static constexpr const char* kShader = R"(
layout(local_size_x = 32) in;
struct Signature { uint key[8], r[8], s[8], hash[8]; };
layout(set = 0, binding = 0) readonly buffer Signatures { Signature signatures[]; };
layout(set = 0, binding = 1) readonly buffer Tape { uint tape[]; };
layout(set = 0, binding = 2) readonly buffer Start { uint start[]; };
layout(set = 0, binding = 3) writeonly buffer Valid { uint valid[]; };
layout(push_constant) uniform Push { uint first; uint items; uint steps; uint key; };
#define EACH19(F) F(0) F(1) F(2) F(3) F(4) F(5) F(6) F(7) F(8) F(9) F(10) F(11) F(12) F(13) F(14) \
    F(15) F(16) F(17) F(18)
#define EACH(F) EACH19(F) F(19)
uint registers[REGISTERS * 20];
void load(uint k, out uint a[20]) {
#define LOAD(i) a[i] = registers[20 * k + i];
  EACH(LOAD)
}
void store(uint k, uint a[20]) {
#define STORE(i) registers[20 * k + i] = a[i];
  EACH(STORE)
}
// Limbs of up to 2^24: carries, and 2^255 = 19.
void carry(inout uint a[20]) {
#define CARRY(i) a[i + 1] += a[i] >> 13; a[i] &= 8191u;
  EACH19(CARRY)
  a[0] += 19 * (a[19] >> 8);
  a[19] &= 255u;
  CARRY(0)
}
// The remainder in [0, p).
void reduce(inout uint a[20]) {
  carry(a);
  carry(a);
  uint over = 19;
#define OVER(i) over = (a[i] + over) >> 13;
  EACH19(OVER)
  a[0] += 19 * ((a[19] + over) >> 8);
  EACH19(CARRY)
  a[19] &= 255u;
}
bool is_zero(uint a[20]) {
  uint all = 0;
#define ALL(i) all |= a[i];
  EACH(ALL)
  return all == 0;
}
void multiply(uint a[20], uint b[20], out uint low[20]) {
  uint c[41];
#define CLEAR(i) c[i] = 0; c[i + 20] = 0;
  EACH(CLEAR)
#define ROW(i) { uint x = a[i]; \
    c[i] += x * b[0]; c[i + 1] += x * b[1]; c[i + 2] += x * b[2]; c[i + 3] += x * b[3]; \
    c[i + 4] += x * b[4]; c[i + 5] += x * b[5]; c[i + 6] += x * b[6]; c[i + 7] += x * b[7]; \
    c[i + 8] += x * b[8]; c[i + 9] += x * b[9]; c[i + 10] += x * b[10]; c[i + 11] += x * b[11]; \
    c[i + 12] += x * b[12]; c[i + 13] += x * b[13]; c[i + 14] += x * b[14]; \
    c[i + 15] += x * b[15]; c[i + 16] += x * b[16]; c[i + 17] += x * b[17]; \
    c[i + 18] += x * b[18]; c[i + 19] += x * b[19]; }
  EACH(ROW)
  // 2^260 = 32 * 19.
#define UP(i) c[i + 1] += c[i] >> 13; c[i] &= 8191u;
  EACH(UP)
#define UP20(i) c[i + 21] += c[i + 20] >> 13; c[i + 20] &= 8191u;
  EACH19(UP20)
#define FOLD(i) low[i] = c[i] + 608 * c[i + 20];
  EACH(FOLD)
  carry(low);
}
// 13 bits of a number, from bit 13 i on.
uint limb(uint words[8], uint i) {
  uint at = 13 * i, word = at >> 5, shift = at & 31u;
  uint bits = words[word] >> shift;
  if (shift > 19 && word < 7) bits |= words[word + 1] << (32 - shift);
  return bits & (i == 19 ? 255u : 8191u);
}
bool below_order(uint s[8]) {
  uint order[8] = uint[8](0x5cf5d3edu, 0x5812631au, 0xa2f79cd6u, 0x14def9deu, 0u, 0u, 0u, 0x10000000u);
  bool below = false;
  for (int k = 0; k < 8; ++k) below = s[k] < order[k] || (s[k] == order[k] && below);
  return below;
}
void main() {
  uint item = first + gl_GlobalInvocationID.x;
  if (item >= items) return;
  for (uint k = 0; k < REGISTERS * 20; ++k) registers[k] = start[k];
  uint words[8] = signatures[item].key, s[8] = signatures[item].s, h[8] = signatures[item].hash;
  uint sign = words[7] >> 31;
  uint a[20], b[20], c[20];
#define UNPACK(i) a[i] = limb(words, i);
  EACH(UNPACK)
  store(key, a);
  b = a;
  reduce(b);
  // Numbers that are not reduced are no encodings.
  bool good = below_order(s) && a == b;
  for (uint k = 0; k < steps; ++k) {
    uint code = tape[k], op = code >> 24, to = code >> 16 & 255u, from = code >> 8 & 255;
    uint with = code & 255u;
    if (op <= 2) {
      load(from, a);
      load(with, b);
      if (op == 0) {
        multiply(a, b, c);
      } else if (op == 1) {
#define PLUS(i) c[i] = a[i] + b[i];
        EACH(PLUS)
        carry(c);
      } else {
        // a + 64 p - b
#define MINUS(i) c[i] = a[i] + (i == 0 ? 15168u : 16382u) - b[i];
        EACH(MINUS)
        carry(c);
      }
      store(to, c);
    } else if (op == 3) {
      load(from, a);
      load(from + 1, b);
      reduce(a);
      reduce(b);
      uint place = is_zero(a) ? from + 2 : from + 3;
      good = good && (is_zero(a) || is_zero(b));
      load(place, c);
      a = c;
      reduce(a);
      good = good && !(sign == 1 && is_zero(a));
      if ((a[0] & 1u) == sign) load(place + 2, c);
      store(to, c);
    } else if (op == 4) {
      uint bits = (s[with >> 5] >> (with & 31u) & 1u) + 2 * (h[with >> 5] >> (with & 31u) & 1u);
      uint place = from + 4 * bits;
      for (uint i = 0; i < 80; ++i) registers[20 * to + i] = registers[20 * place + i];
    } else {
      load(from, a);
      load(with, b);
      reduce(a);
      reduce(b);
      words = signatures[item].r;
#define SAME(i) c[i] = limb(words, i);
      EACH(SAME)
      good = good && b == c && (a[0] & 1u) == words[7] >> 31;
    }
  }
  valid[item] = good ? 1 : 0;
}
)";

  std::span<const Signature> signatures_;
  std::span<std::uint32_t> valid_;
  Override where_;
  std::uint64_t threads_;
};

Bytes bytes_of(std::string_view hex) {
  Bytes out;
  for (std::size_t k = 0; k + 1 < hex.size(); k += 2)
    out.push_back(
        static_cast<std::uint8_t>(std::stoul(std::string(hex.substr(k, 2)), nullptr, 16)));
  return out;
}

// Prepares the verification of a signature of 64 bytes.
Signature prepared(const Bytes& key, const Bytes& message, const Bytes& signature) {
  Bytes hashed(signature.begin(), signature.begin() + 32);
  hashed.insert(hashed.end(), key.begin(), key.end());
  hashed.insert(hashed.end(), message.begin(), message.end());
  return {number(key), number(signature), number(std::span(signature).subspan(32)),
          modulo_order(sha512(hashed))};
}

// A key pair (RFC 8032, 5.1.5 and 5.1.6).
class Signer {
 public:
  explicit Signer(const Bytes& secret) {
    const auto hash = sha512(secret);
    scalar_ = {hash[0] & ~std::uint64_t{7}, hash[1], hash[2],
               (hash[3] & ~(std::uint64_t{3} << 62)) | std::uint64_t{1} << 62};
    prefix_ = {hash[4], hash[5], hash[6], hash[7]};
    append(key_, encoded(scalar_));
  }
  const Bytes& key() const { return key_; }
  Bytes sign(const Bytes& message) const {
    Bytes hashed;
    append(hashed, prefix_);
    hashed.insert(hashed.end(), message.begin(), message.end());
    const Number r = modulo_order(sha512(hashed));
    Bytes out;
    append(out, encoded(r));
    out.resize(64);
    const Number s = multiply_add(prepared(key_, message, out).hash, scalar_, r);
    out.resize(32);
    append(out, s);
    return out;
  }

 private:
  static Number encoded(const Number& factor) {
    const Field one({1}), two_d = Field(kD) + Field(kD), x(kBaseX), y(kBaseY);
    const Point<Field> base{x, y, one, x * y};
    Point<Field> sum{Field(), one, one, Field()};
    for (std::size_t k = 256; k-- > 0;) {
      sum = twice(sum);
      if (bit(factor, k)) sum = add(sum, base, two_d);
    }
    const Field z = inverse(sum.z);
    Number out = (sum.y * z).reduced();
    out[3] |= (sum.x * z).reduced()[0] << 63;
    return out;
  }

  Number scalar_, prefix_;
  Bytes key_;
};

struct Published {
  const char *secret, *key, *message, *signature;
};
// RFC 8032, 7.1: tests 1 to 3, and SHA(abc).
constexpr Published kPublished[] = {
    {"9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
     "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a", "",
     "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b"
     "4"
     "6bd25bf5f0595bbe24655141438e7a100b"},
    {"4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
     "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c", "72",
     "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11"
     "d"
     "8c387b2eaeb4302aeeb00d291612bb0c00"},
    {"c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7",
     "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025", "af82",
     "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac18ff9b538d16f290ae67f760984dc"
     "6"
     "594a7c15e9716ed28dc027beceea1ec40a"},
    {"833fe62409237b9d62ec77587520911e9a759cec1d19755b7da901b96dca3d42",
     "ec172b93ad5e563bf4932c70e1245034c35467ef2efd4d64ebf819683467e2bf",
     "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a2192992a274fc1a836ba3c23a3fee"
     "b"
     "bd454d4423643ce80e2a9ac94fa54ca49f",
     "dc2a4459e7369633a52b1bf277839a00201009a3efbf3ecb69bea2186c26b58909351fc9ac90b3ecfdfbc7c66431e"
     "0"
     "303dca179c138ac17ad9bef1177331a704"}};

// Signatures with their expected answers.
struct Cases {
  std::vector<Signature> signatures;
  std::vector<std::uint32_t> expected;

  void add(const Signature& signature, bool valid) {
    signatures.push_back(signature);
    expected.push_back(valid ? 1 : 0);
  }
};

// True if the published secret keys give the published keys and signatures.
bool signs_as_published() {
  return std::ranges::all_of(kPublished, [](const Published& one) {
    const Signer signer(bytes_of(one.secret));
    return signer.key() == bytes_of(one.key) &&
           signer.sign(bytes_of(one.message)) == bytes_of(one.signature);
  });
}

// The published signatures, and what must be refused: another message, another bit anywhere, s
// plus the order (RFC 8032, 5.1.7), and keys that are no points or no reduced numbers.
Cases published_cases() {
  Cases out;
  for (const Published& one : kPublished) {
    const Bytes key = bytes_of(one.key), message = bytes_of(one.message),
                signature = bytes_of(one.signature);
    out.add(prepared(key, message, signature), true);
    Bytes longer = message;
    longer.push_back(1);
    out.add(prepared(key, longer, signature), false);
    for (std::size_t at = 0; at < 512; at += 37) {
      Bytes altered = signature;
      altered[at / 8] ^= static_cast<std::uint8_t>(1 << (at % 8));
      out.add(prepared(key, message, altered), false);
      Bytes other = key;
      other[at / 16] ^= static_cast<std::uint8_t>(1 << (at % 8));
      out.add(prepared(other, message, signature), false);
    }
    Signature larger = prepared(key, message, signature);
    Wide carry = 0;
    for (std::size_t k = 0; k < 4; ++k) {
      carry += Wide{larger.s[k]} + kOrder[k];
      larger.s[k] = static_cast<std::uint64_t>(carry);
      carry >>= 64;
    }
    out.add(larger, false);
  }
  // The key (0, 1) is a point, and s = 0 with r = (0, 1) a valid signature for it. Not so with its
  // sign bit set, or as p + 1.
  const Number unit = {1}, set = {1, 0, 0, std::uint64_t{1} << 63};
  const Number larger = {0xffffffffffffffee, ~std::uint64_t{0}, ~std::uint64_t{0},
                         0x7fffffffffffffff};
  out.add({unit, unit, {}, {7}}, true);
  out.add({set, unit, {}, {7}}, false);
  out.add({larger, unit, {}, {7}}, false);
  out.add({unit, larger, {}, {7}}, false);
  out.add({{2}, unit, {}, {7}}, false);  // y = 2 is on no point
  return out;
}

// Messages of several lengths with signatures by a few keys; every tenth one is altered.
Cases many_cases(std::size_t count) {
  Cases out;
  std::vector<Signer> signers;
  for (std::uint8_t k = 0; k < 8; ++k) signers.emplace_back(Bytes(32, k));
  for (std::size_t k = 0; k < count; ++k) {
    const Signer& signer = signers[k % signers.size()];
    Bytes message(k % 200, static_cast<std::uint8_t>(k));
    const Bytes signature = signer.sign(message);
    const bool altered = k % 10 == 9;
    if (altered) message.push_back(0);
    out.add(prepared(signer.key(), message, signature), !altered);
  }
  return out;
}

// ed25519 [signatures]
static int program(sample::Arguments& arguments) {
  const auto count = arguments.count<std::size_t>(1'000);
  // Includes the software device, so that both backends run on any machine.
  tg::hybrid::Executor executor(tg::hybrid::environment_hybrid_options({.admit_software = true}));
  const bool device = tg::add_devices(executor) > 0;
  if (!signs_as_published()) {
    std::printf("a published key or signature is wrong\n");
    return 1;
  }
  const Cases published = published_cases(), many = many_cases(count);
  std::printf("%zu signatures, %td valid\n", count, std::ranges::count(many.expected, 1u));

  double one_thread_us = 0;
  for (const sample::Way& way : sample::ways(device)) {
    std::vector<std::uint32_t> valid(published.expected.size(), 2), all(count, 2);
    Verify known(published.signatures, valid, way.where, way.threads);
    executor.execute(known);
    Verify task(many.signatures, all, way.where, way.threads);
    const double us = sample::median_us(executor, 3, [&] { executor.execute(task); });
    if (valid != published.expected || all != many.expected) {
      std::printf("%s: a signature was judged wrongly\n", way.name);
      return 1;
    }
    if (one_thread_us == 0) one_thread_us = us;
    std::printf("%-17s %9.1f µs, %6.2f x, %7.0f signatures a second\n", way.name, us,
                one_thread_us / us, 1e6 * static_cast<double>(count) / us);
  }
  if (!device) return 0;
  // Both sides element by element.
  std::vector<std::uint32_t> valid(count);
  Verify task(many.signatures, valid);
  const tg::hybrid::TaskCheck check = executor.check(task);
  std::printf("%s: %s", check.device.c_str(), check.text().c_str());
  return check.agrees() ? 0 : 1;
}

int main(int argc, char** argv) { return sample::run(argc, argv, "ed25519 [SIGNATURES]", program); }
