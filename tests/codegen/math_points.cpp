// Functions under test and their arguments: special values, edges, hard cases, random bits.
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <type_traits>

#include "math_reference.hpp"

namespace topograd::codegen::test {
namespace {

template <class T>
using Bits = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;

template <class T>
void add_around(std::vector<T>& out, T center) {
  T below = center, above = center;
  for (int i = 0; i < 4; ++i) {
    out.push_back(below);
    out.push_back(above);
    below = std::nextafter(below, -std::numeric_limits<T>::infinity());
    above = std::nextafter(above, std::numeric_limits<T>::infinity());
  }
}

template <class T>
std::vector<T> specials() {
  using L = std::numeric_limits<T>;
  std::vector<T> out = {0,
                        1,
                        T(0.5),
                        2,
                        3,
                        T(0.1),
                        10,
                        L::min(),
                        L::denorm_min(),
                        L::max(),
                        L::epsilon(),
                        L::infinity(),
                        L::min() - L::denorm_min()};
  for (std::size_t i = 0, n = out.size(); i < n; ++i) out.push_back(-out[i]);
  out.push_back(L::quiet_NaN());
  return out;
}

template <class T>
T random_bits(std::mt19937_64& random) {
  return std::bit_cast<T>(static_cast<Bits<T>>(random()));
}

// Numbers next to k pi/2, the hardest for argument reduction.
template <class T>
void add_quarter_turns(std::vector<T>& out, std::mt19937_64& random, int count) {
  Number half_pi, product;
  mpfr_const_pi(half_pi.get(), MPFR_RNDN);
  mpfr_div_2ui(half_pi.get(), half_pi.get(), 1, MPFR_RNDN);
  for (int i = 0; i < count; ++i) {
    const unsigned long k =
        i < 64 ? static_cast<unsigned long>(i) + 1 : random() >> (random() % 62);
    mpfr_mul_ui(product.get(), half_pi.get(), k, MPFR_RNDN);
    const T x = sizeof(T) == 8 ? T(mpfr_get_d(product.get(), MPFR_RNDN))
                               : T(mpfr_get_flt(product.get(), MPFR_RNDN));
    out.push_back(x);
    out.push_back(-std::nextafter(x, T(0)));
  }
}

template <class T>
std::vector<T> unary_points(const MathFunction& f, int count, std::mt19937_64& random) {
  using L = std::numeric_limits<T>;
  std::vector<T> out = specials<T>();
  for (double edge : f.edges) add_around(out, T(edge));
  for (int e = L::min_exponent - L::digits; e < L::max_exponent; ++e) {
    const T power = std::ldexp(T(1), e);
    for (T x : {power, std::nextafter(power, T(0)), std::nextafter(power, L::infinity())}) {
      out.push_back(x);
      out.push_back(-x);
    }
  }
  if (f.name == "sin" || f.name == "cos" || f.name == "tan") {
    add_quarter_turns(out, random, count / 2);
  }
  for (int i = 0; i < count; ++i) out.push_back(random_bits<T>(random));
  std::uniform_real_distribution<double> uniform(f.low, f.high), unit(0, 1);
  for (int i = 0; i < count; ++i) out.push_back(T(uniform(random)));
  for (int i = 0; i < count; ++i) {  // all magnitudes around the edges
    const double edge = f.edges.empty() ? 0 : f.edges[random() % f.edges.size()];
    const double step = std::ldexp(1 + unit(random), -1 - static_cast<int>(random() % 40));
    out.push_back(T(edge + (random() & 1 ? step : -step) * (edge == 0 ? 1 : std::fabs(edge))));
  }
  return out;
}

template <class T>
std::vector<Arguments<T>> binary_points(const MathFunction& f, int count, std::mt19937_64& random) {
  std::vector<Arguments<T>> out;
  const std::vector<T> special = specials<T>();
  for (T x : special) {
    for (T y : special) out.push_back({x, y});
  }
  std::uniform_real_distribution<double> uniform(f.low, f.high);
  const auto any = [&] { return random_bits<T>(random); };
  for (int i = 0; i < count; ++i) {
    out.push_back({any(), any()});
    const T x = any();  // operands of similar size, and with each other's exponents
    out.push_back({x, x * T(uniform(random))});
    out.push_back({T(uniform(random)), T(uniform(random))});
    out.push_back({std::fabs(T(uniform(random))), any()});
    if (f.name == "pow") {  // the whole range of results
      const T base = std::fabs(any());
      const double target = (uniform(random) / f.high) * 1.02 * std::log(double(T(1e30))) *
                            (sizeof(T) == 8 ? 10.4 : 1.4);
      if (std::isfinite(base) && base > 0 && base != 1) {
        out.push_back({base, T(target / std::log(base))});
      }
      out.push_back({T(1) + T(std::ldexp(uniform(random), -12)), T(target * 1000)});
      out.push_back({-std::fabs(T(uniform(random))), std::floor(T(uniform(random)))});
    }
  }
  return out;
}

// erfc(-x / sqrt(2)) / 2; the extra digits compensate the effect of x's rounding on the
// exponential.
int normal_cdf(mpfr_t out, mpfr_srcptr x, mpfr_rnd_t rounding) {
  static Number root, argument;
  mpfr_sqrt_ui(root.get(), 2, MPFR_RNDN);
  mpfr_div(argument.get(), x, root.get(), MPFR_RNDN);
  mpfr_neg(argument.get(), argument.get(), MPFR_RNDN);
  mpfr_erfc(out, argument.get(), rounding);
  return mpfr_div_2ui(out, out, 1, rounding);
}

int sigmoid(mpfr_t out, mpfr_srcptr x, mpfr_rnd_t rounding) {
  static Number power;
  mpfr_neg(power.get(), x, MPFR_RNDN);
  mpfr_exp(power.get(), power.get(), MPFR_RNDN);
  mpfr_add_ui(power.get(), power.get(), 1, MPFR_RNDN);
  return mpfr_ui_div(out, 1, power.get(), rounding);
}

}  // namespace

std::span<const MathFunction> math_functions() {
  static const std::vector<MathFunction> table = {
      {.name = "exp",
       .unary = mpfr_exp,
       .edges = {0, 709.78, -708.4, -745.1, 88.7, -87.3, -103.9},
       .low = -30,
       .high = 30},
      {.name = "exp2",
       .unary = mpfr_exp2,
       .edges = {0, 1024, -1022, -1075, 128, -126, -149},
       .low = -30,
       .high = 30},
      {.name = "expm1",
       .unary = mpfr_expm1,
       .edges = {0, 709.78, -40, -0.35, 0.35, 88.7, -20},
       .low = -3,
       .high = 3},
      {.name = "log",
       .unary = mpfr_log,
       .edges = {1, 0.7071067811865476, 1.4142135623730951},
       .low = 0,
       .high = 10},
      {.name = "log2",
       .unary = mpfr_log2,
       .edges = {1, 2, 0.7071067811865476},
       .low = 0,
       .high = 10},
      {.name = "log10", .unary = mpfr_log10, .edges = {1, 10, 1000}, .low = 0, .high = 1000},
      {.name = "log1p",
       .unary = mpfr_log1p,
       .edges = {0, -1, 0.41421356, -0.29289322},
       .low = -1,
       .high = 3},
      {.name = "sin",
       .unary = mpfr_sin,
       .edges = {0, 3.141592653589793, 1048576, 1024, 1e9},
       .low = -20,
       .high = 20},
      {.name = "cos",
       .unary = mpfr_cos,
       .edges = {0, 1.5707963267948966, 1048576, 1024, 1e9},
       .low = -20,
       .high = 20},
      {.name = "tan",
       .unary = mpfr_tan,
       .edges = {0, 1.5707963267948966, 1048576, 1024, 1e9},
       .low = -20,
       .high = 20},
      {.name = "asin", .unary = mpfr_asin, .edges = {0, 0.5, 1, -1}, .low = -1, .high = 1},
      {.name = "acos", .unary = mpfr_acos, .edges = {0, 0.5, -0.5, 1, -1}, .low = -1, .high = 1},
      {.name = "atan",
       .unary = mpfr_atan,
       .edges = {0, 0.236, 0.7208, 1, 1.387, 4.237},
       .low = -5,
       .high = 5},
      {.name = "sinh", .unary = mpfr_sinh, .edges = {0, 22, 710.4, 10, 89.4}, .low = -3, .high = 3},
      {.name = "cosh", .unary = mpfr_cosh, .edges = {0, 22, 710.4, 10, 89.4}, .low = -3, .high = 3},
      {.name = "tanh", .unary = mpfr_tanh, .edges = {0, 22, 10, 0.35}, .low = -3, .high = 3},
      {.name = "asinh", .unary = mpfr_asinh, .edges = {0, 268435456, 8192}, .low = -10, .high = 10},
      {.name = "acosh", .unary = mpfr_acosh, .edges = {1, 268435456, 8192}, .low = 1, .high = 10},
      {.name = "atanh", .unary = mpfr_atanh, .edges = {0, 1, -1, 0.5}, .low = -1, .high = 1},
      {.name = "cbrt", .unary = mpfr_cbrt, .edges = {0, 1, 8}, .low = -30, .high = 30},
      {.name = "erf", .unary = mpfr_erf, .edges = {0, 1, 6, 4}, .low = -4, .high = 4, .bound = 1.5},
      {.name = "normal_cdf",
       .unary = normal_cdf,
       .edges = {0, 0.65, -0.65, -4.625, -3.03125, -37.5, -38.5, -12.5, -14.2},
       .low = -10,
       .high = 3,
       .bound = 2,
       .bound_f32 = 4},
      {.name = "sigmoid",
       .unary = sigmoid,
       .edges = {0, -37, 37, -708.4, -745.1, -87.3, -103.9},
       .low = -30,
       .high = 10,
       .bound = 2},
      {.name = "rsqrt", .unary = mpfr_rec_sqrt, .edges = {1}, .low = 0, .high = 30, .bound = 1.5},
      {.name = "pow", .binary = mpfr_pow, .low = -20, .high = 20},
      {.name = "atan2", .binary = mpfr_atan2, .low = -3, .high = 3},
      {.name = "hypot", .binary = mpfr_hypot, .low = -3, .high = 3},
  };
  return table;
}

template <class T>
std::vector<Arguments<T>> sweep(const MathFunction& function, int random) {
  std::mt19937_64 generator(20240229);
  if (!function.unary) return binary_points<T>(function, random, generator);
  std::vector<Arguments<T>> out;
  for (T x : unary_points<T>(function, random, generator)) out.push_back({x, 0});
  return out;
}

template std::vector<Arguments<float>> sweep<float>(const MathFunction&, int);
template std::vector<Arguments<double>> sweep<double>(const MathFunction&, int);

}  // namespace topograd::codegen::test
