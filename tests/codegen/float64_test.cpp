// Float64 by integers, compiled as C++: every operation against the host's, to the bit.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <string>

#include "../../ir/checking/random_program.hpp"

namespace topograd::codegen::test {
namespace glsl {

// What the text needs of GLSL.
using uint = std::uint32_t;
struct uvec2 {
  uint x, y;
  uvec2(uint low, uint high) : x(low), y(high) {}
};
struct uvec4 {
  uint x, y, z, w;
  uvec4(uint a, uint b, uint c, uint d) : x(a), y(b), z(c), w(d) {}
};
void umulExtended(uint a, uint b, uint& high, uint& low) {
  const std::uint64_t product = std::uint64_t{a} * b;
  high = static_cast<uint>(product >> 32);
  low = static_cast<uint>(product);
}
int findMSB(uint a) { return 31 - std::countl_zero(a); }
template <class T>
T min(T a, T b) {
  return a < b ? a : b;
}
template <class T>
T max(T a, T b) {
  return a > b ? a : b;
}
int clamp(int x, int low, int high) { return std::clamp(x, low, high); }
float inversesqrt(float x) { return 1.0f / std::sqrt(x); }
/// Error of a device's estimates, in ulp.
int estimate_error = 0;
float rough(double x) {
  return std::bit_cast<float>(std::bit_cast<std::int32_t>(static_cast<float>(x)) + estimate_error);
}

#define TG_OUT(T) T&
#define TG_INOUT(T) T&
#define TG_ROUGH(x) rough(x)
// NOLINTBEGIN
#include "../../codegen/math/float64.glsl"
// NOLINTEND

}  // namespace glsl

namespace {

using glsl::uvec2;

uvec2 pair(std::uint64_t bits) {
  return {static_cast<std::uint32_t>(bits), static_cast<std::uint32_t>(bits >> 32)};
}
uvec2 pair(double x) { return pair(std::bit_cast<std::uint64_t>(x)); }
std::uint64_t bits(uvec2 v) { return std::uint64_t{v.y} << 32 | v.x; }
double number(uvec2 v) { return std::bit_cast<double>(bits(v)); }

bool same(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b);
}

/// Numbers near powers of two, with few or many bits, subnormal, special and random.
class Numbers {
 public:
  explicit Numbers(std::uint64_t seed) : random_(seed) {}

  std::uint64_t word() {
    return std::uint64_t{random_.below(1ull << 32)} << 32 | random_.below(1ull << 32);
  }
  std::size_t below(std::size_t n) { return random_.below(n); }
  /// Up to two units in the last place from x.
  double near(double x) {
    return std::bit_cast<double>(std::bit_cast<std::uint64_t>(x) + below(5) - 2);
  }
  double one() {
    const std::uint64_t sign = word() & 1ull << 63, fraction = word() >> 12;
    const std::uint64_t exponent = below(2047) << 52, middle = (993 + below(60)) << 52;
    const std::uint64_t zeros = ~0ull << below(53);
    const auto made = [](std::uint64_t word) { return std::bit_cast<double>(word); };
    switch (below(8)) {
      case 0: return made(word());
      case 1: return made(sign | (exponent + below(9) - (exponent == 0 ? 0 : 4)));
      case 2: return made(sign | fraction >> below(52));
      case 3: return made(sign | exponent | (fraction & zeros));
      case 4: return made(sign | middle | fraction);
      case 5: return made(sign | middle | (fraction & zeros));
      case 6: return made(sign | exponent | (~0ull >> 12 & ~(1ull << below(52))));
      default: return special();
    }
  }

 private:
  double special() {
    using Limits = std::numeric_limits<double>;
    const double numbers[] = {0,
                              1,
                              0.5,
                              1.5,
                              2.5,
                              0x1p52 - 0.5,
                              0x1p53 + 2,
                              4294967295.0,
                              2147483648.0,
                              Limits::infinity(),
                              Limits::quiet_NaN(),
                              Limits::min(),
                              Limits::denorm_min(),
                              Limits::max()};
    const double x = numbers[below(std::size(numbers))];
    return below(2) == 0 ? x : -x;
  }

  ir::Random random_;
};

/// TOPOGRAD_FLOAT64_OPERANDS: triples of operands, for longer runs.
std::uint64_t count() {
  const char* given = std::getenv("TOPOGRAD_FLOAT64_OPERANDS");
  return given == nullptr ? 100'000 : std::strtoull(given, nullptr, 10);
}

class Float64 : public testing::Test {
 protected:
  /// Calls `each` with operands; among them some whose sum or product nearly cancels.
  template <class Each>
  void for_operands(Each&& each) {
    constexpr int kErrors[] = {0, 8, -8, 3, -3};
    for (std::uint64_t k = 0; k < count() && !HasFailure(); ++k) {
      glsl::estimate_error = kErrors[k % 5];
      double a = numbers_.one(), b = numbers_.one(), c = numbers_.one();
      switch (numbers_.below(6)) {
        case 0: b = -numbers_.near(a); break;
        case 1: c = numbers_.near(-(a * b)); break;
        case 2: a = b * b; break;
        case 3: a = b * c; break;
        default: break;
      }
      each(a, b, c);
    }
    glsl::estimate_error = 0;
  }

  static void expect(const char* what, double got, double want, double a, double b = 0,
                     double c = 0) {
    char text[200];
    std::snprintf(text, sizeof text, "%s(%a, %a, %a): got %a, expected %a", what, a, b, c, got,
                  want);
    EXPECT_TRUE(same(got, want)) << text;
  }

  Numbers numbers_{1};
};

TEST_F(Float64, ArithmeticIsTheHosts) {
  for_operands([](double a, double b, double c) {
    expect("add", number(f64_add(pair(a), pair(b))), a + b, a, b);
    expect("sub", number(f64_sub(pair(a), pair(b))), a - b, a, b);
    expect("mul", number(f64_mul(pair(a), pair(b))), a * b, a, b);
    expect("div", number(f64_div(pair(a), pair(b))), a / b, a, b);
    expect("sqrt", number(f64_sqrt(pair(a))), std::sqrt(a), a);
    expect("fma", number(f64_fma(pair(a), pair(b), pair(c))), std::fma(a, b, c), a, b, c);
    expect("neg", number(f64_neg(pair(a))), -a, a);
    expect("abs", number(f64_abs(pair(a))), std::fabs(a), a);
  });
}

TEST_F(Float64, ComparisonsAreTheHosts) {
  for_operands([](double a, double b, double) {
    expect("less", f64_less(pair(a), pair(b)), a < b, a, b);
    expect("less_equal", f64_less_equal(pair(a), pair(b)), a <= b, a, b);
    expect("equal", f64_equal(pair(a), pair(b)), a == b, a, b);
    expect("ordered_unequal", f64_ordered_unequal(pair(a), pair(b)), a < b || b < a, a, b);
    expect("is_nan", f64_is_nan(pair(a)), std::isnan(a), a);
    expect("is_inf", f64_is_inf(pair(a)), std::isinf(a), a);
    expect("min", number(f64_min(pair(a), pair(b))), b < a ? b : a, a, b);
    expect("max", number(f64_max(pair(a), pair(b))), a < b ? b : a, a, b);
    const double least = std::isnan(a) ? b : b < a ? b : a;
    expect("number_min", number(f64_number_min(pair(a), pair(b))), least, a, b);
  });
}

TEST_F(Float64, RoundingIsTheHosts) {
  for_operands([&](double a, double, double) {
    for (const double x : {a, (static_cast<double>(numbers_.below(4001)) - 2000) / 2}) {
      expect("floor", number(f64_floor(pair(x))), std::floor(x), x);
      expect("ceil", number(f64_ceil(pair(x))), std::ceil(x), x);
      expect("trunc", number(f64_trunc(pair(x))), std::trunc(x), x);
      expect("round", number(f64_round_even(pair(x))), std::nearbyint(x), x);
    }
  });
}

TEST_F(Float64, ConversionsAreTheHosts) {
  for_operands([&](double a, double, double) {
    const std::uint64_t word = numbers_.word() >> numbers_.below(64);
    const auto low = static_cast<std::uint32_t>(word);
    const auto signed_low = static_cast<std::int32_t>(low);
    const auto signed_word = static_cast<std::int64_t>(word);
    expect("from_uint", number(glsl::f64_from_uint(low)), low, low);
    expect("from_int", number(glsl::f64_from_int(signed_low)), signed_low, signed_low);
    expect("from_uint64", number(f64_from_uint64(pair(word))), static_cast<double>(word), 0);
    expect("from_int64", number(f64_from_int64(pair(word))), static_cast<double>(signed_word), 0);
    const float narrow = std::bit_cast<float>(low);
    expect("from_float", number(glsl::f64_from_float(low)), double{narrow}, narrow);
    const auto other_low = static_cast<std::uint32_t>(numbers_.word() >> numbers_.below(64));
    const float other = std::bit_cast<float>(other_low);
    expect("float_product", number(glsl::f64_float_product(low, other_low)),
           double{narrow} * double{other}, narrow, other);
    const double middle = (double{narrow} + std::nextafter(narrow, 0.0f)) / 2;
    for (const double x : {a, middle}) {
      const float got = std::bit_cast<float>(f64_to_float(pair(x)));
      if (std::fabs(x) < 3.4e38 || !std::isfinite(x))
        expect("to_float", got, static_cast<float>(x), x);
    }
    if (a > -1 && a < 0x1p32)
      expect("to_uint", f64_to_uint(pair(a)), static_cast<std::uint32_t>(std::max(a, 0.0)), a);
    if (std::fabs(a) < 0x1p31)
      expect("to_int", f64_to_int(pair(a)), static_cast<std::int32_t>(a), a);
    if (std::fabs(a) < 0x1p63) {
      EXPECT_EQ(static_cast<std::int64_t>(bits(f64_to_int64(pair(a)))),
                static_cast<std::int64_t>(a));
    }
  });
}

}  // namespace
}  // namespace topograd::codegen::test
