// Values of every op: published constants, and formulas in long double that differ from the
// evaluator's.
#include "../support/random_program.hpp"

#include "../../ir/evaluate.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>
#include <random>
#include <string>
#include <utility>

namespace topograd::test {
namespace {

using ir::Op;
using Real = long double;

// Abramowitz & Stegun, Handbook of Mathematical Functions (1964),
// tables 1.1, 4.2, 4.6, 4.14, 4.15, 7.1; further digits from DLMF.
struct Constant {
  Op op;
  double a, b, c, value;
};
constexpr Constant kConstants[] = {
    {Op::Sqrt, 2, 0, 0, 1.41421356237309504880},
    {Op::Rsqrt, 2, 0, 0, 0.70710678118654752440},
    {Op::Cbrt, 2, 0, 0, 1.25992104989487316477},
    {Op::Cbrt, -27, 0, 0, -3},
    {Op::Exp, 1, 0, 0, 2.71828182845904523536},
    {Op::Exp2, 0.5, 0, 0, 1.41421356237309504880},
    {Op::Expm1, 1e-10, 0, 0, 1.00000000005000000000e-10},
    {Op::Log, 2, 0, 0, 0.69314718055994530942},
    {Op::Log, 10, 0, 0, 2.30258509299404568402},
    {Op::Log2, 10, 0, 0, 3.32192809488736234787},
    {Op::Log10, 2, 0, 0, 0.30102999566398119521},
    {Op::Log1p, 1e-10, 0, 0, 9.99999999950000000e-11},
    {Op::Sin, 1, 0, 0, 0.84147098480789650665},
    {Op::Cos, 1, 0, 0, 0.54030230586813971740},
    {Op::Tan, 1, 0, 0, 1.55740772465490223051},
    {Op::Asin, 0.5, 0, 0, 0.52359877559829887308},
    {Op::Acos, 0.5, 0, 0, 1.04719755119659774615},
    {Op::Atan, 1, 0, 0, 0.78539816339744830962},
    {Op::Atan2, 1, -1, 0, 2.35619449019234492885},
    {Op::Atan2, -1, -1, 0, -2.35619449019234492885},
    {Op::Sinh, 1, 0, 0, 1.17520119364380145688},
    {Op::Cosh, 1, 0, 0, 1.54308063481524377848},
    {Op::Tanh, 1, 0, 0, 0.76159415595576488812},
    {Op::Asinh, 1, 0, 0, 0.88137358701954302523},
    {Op::Acosh, 2, 0, 0, 1.31695789692481670863},
    {Op::Atanh, 0.5, 0, 0, 0.54930614433405484570},
    {Op::Erf, 0.5, 0, 0, 0.52049987781304653768},
    {Op::Erf, 1, 0, 0, 0.84270079294971486934},
    {Op::Hypot, 3, 4, 0, 5},
    {Op::Hypot, 3e300, 4e300, 0, 5e300},
    {Op::Pow, 2, 0.5, 0, 1.41421356237309504880},
    {Op::Pow, -2, 3, 0, -8},
    {Op::Sigmoid, 0, 0, 0, 0.5},
    {Op::Sigmoid, 1, 0, 0, 0.73105857863000487926},
    {Op::Softplus, 0, 0, 0, 0.69314718055994530942},
    {Op::Softplus, 1000, 0, 0, 1000},
    {Op::Gelu, 1, 0, 0, 0.84134474606854294859},
    {Op::Gelu, -6, 0, 0, -5.91952587022618884421e-09},
    {Op::Gelu, -30, 0, 0, -1.47201417814445611786e-196},
    {Op::Silu, 1, 0, 0, 0.73105857863000487926},
    {Op::Silu, -700, 0, 0, -6.90177358063183959969e-302},
    {Op::NormalCdf, 1, 0, 0, 0.84134474606854294859},
    {Op::NormalCdf, -10, 0, 0, 7.61985302416052606597e-24},
    {Op::NormalCdf, -38, 0, 0, 2.88542836006878430835e-316},
    {Op::Elu, -1, 1, 0, -0.63212055882855767840},
    {Op::LeakyRelu, -2, 0.1, 0, -0.2},
    {Op::Smoothstep, 0, 1, 0.25, 0.15625},
    {Op::Mix, 2, 4, 0.25, 2.5},
};

Real step_up(Real t) { return t * t * (3 - 2 * t); }
Real logistic(Real a) { return (1 + std::tanh(a / 2)) / 2; }

// Each op by a formula that differs from the evaluator's, if there is one.
Real reference(Op op, Real a, Real b, Real c) {
  switch (op) {
    case Op::Parameter:
    case Op::Data:
    case Op::Uniform:
    case Op::Literal:
    case Op::Tangent:
    case Op::Seed: return 0;
    case Op::Add: return a + b;
    case Op::Sub: return a - b;
    case Op::Mul: return a * b;
    case Op::Div: return a / b;
    case Op::Neg: return 0 - a;
    case Op::Fma: return a * b + c;
    case Op::Square: return std::pow(a, 2.0L);
    case Op::Cube: return std::pow(a, 3.0L);
    case Op::Reciprocal: return 1 / a;
    case Op::Zmul: return a * b;
    case Op::Pow: return std::exp(b * std::log(std::fabs(a))) * (a < 0 ? std::nan("") : 1);
    case Op::Sqrt: return std::sqrt(a);
    case Op::Rsqrt: return a == 0 ? 1 / a : std::pow(a, -0.5L);
    case Op::Cbrt: return std::copysign(std::pow(std::fabs(a), 1.0L / 3), a);
    case Op::Hypot: return std::sqrt(a * a + b * b);
    case Op::Exp: return std::pow(2.71828182845904523536028747135266250L, a);
    case Op::Exp2: return std::pow(2.0L, a);
    case Op::Expm1: return std::exp(a / 2) * 2 * std::sinh(a / 2);
    case Op::Log: return std::log2(a) * 0.693147180559945309417232121458176568L;
    case Op::Log2: return std::log(a) / 0.693147180559945309417232121458176568L;
    case Op::Log10: return std::log(a) / 2.30258509299404568401799145468436421L;
    case Op::Log1p: return 2 * std::atanh(a / (2 + a));
    case Op::Sin: return 2 * std::sin(a / 2) * std::cos(a / 2);
    case Op::Cos: return (std::cos(a / 2) - std::sin(a / 2)) * (std::cos(a / 2) + std::sin(a / 2));
    case Op::Tan: return std::sin(a) / std::cos(a);
    case Op::Asin: return std::atan2(a, std::sqrt((1 - a) * (1 + a)));
    case Op::Acos: return 2 * std::atan2(std::sqrt(1 - a), std::sqrt(1 + a));
    case Op::Atan: return std::asin(a / std::sqrt(1 + a * a));
    case Op::Atan2: return std::arg(std::complex<Real>(b, a));
    case Op::Sinh: return std::tanh(a) * std::cosh(a);
    case Op::Cosh: return (std::exp(a) + std::exp(-a)) / 2;
    case Op::Tanh: return std::expm1(2 * a) / (std::exp(2 * a) + 1);
    case Op::Asinh: return std::atanh(a / std::sqrt(1 + a * a));
    case Op::Acosh: return 2 * std::asinh(std::sqrt((a - 1) / 2));
    case Op::Atanh: return std::log1p(2 * a / (1 - a)) / 2;
    case Op::Erf: return a < 0 ? std::erfc(-a) - 1 : 1 - std::erfc(a);
    case Op::Abs: return std::sqrt(a * a);
    case Op::Sign: return a == 0 ? a : a / std::fabs(a);
    case Op::Floor: return -std::ceil(-a);
    case Op::Ceil: return -std::floor(-a);
    case Op::Round: return std::nearbyint(a);
    case Op::Trunc: return std::copysign(std::floor(std::fabs(a)), a);
    case Op::Mod: return a - b * std::floor(a / b);
    case Op::Min: return std::fmin(a, b);
    case Op::Max: return std::fmax(a, b);
    case Op::Eq: return !(a < b) && !(a > b);
    case Op::Ne: return a < b || a > b;
    case Op::Lt: return b > a;
    case Op::Le: return !(a > b);
    case Op::Gt: return b < a;
    case Op::Ge: return !(a < b);
    case Op::And: return !(a == 0) && !(b == 0);
    case Op::Or: return !(a == 0 && b == 0);
    case Op::Not: return !(a < 0 || a > 0);
    case Op::Select: return a == 0 ? c : b;
    case Op::Fract: return std::remainder(a, 1.0L) + (std::remainder(a, 1.0L) < 0 ? 1 : 0);
    case Op::Clamp: return a < b ? std::fmin(b, c) : std::fmin(a, c);
    case Op::Step: return b >= a;
    case Op::Smoothstep: return step_up(std::fmin(std::fmax((c - a) / (b - a), 0.0L), 1.0L));
    case Op::Mix: return a + (b - a) * c;
    case Op::Relu: return (a + std::fabs(a)) / 2;
    case Op::LeakyRelu: return a > 0 ? a : a * b;
    case Op::Elu: return a > 0 ? a : b * (std::exp(a) - 1);
    case Op::Gelu: return a * std::erfc(-a / std::sqrt(2.0L)) / 2;
    case Op::Sigmoid: return logistic(a);
    case Op::Softplus: return std::log(1 + std::exp(a));
    case Op::Silu: return a * logistic(a);
    case Op::NormalCdf: return std::erfc(-a / std::sqrt(2.0L)) / 2;
  }
  return 0;
}

// Distance in units in the last place of the reference, taken no finer than at `scale`.
template <class T>
Real ulps(T value, Real expected, Real scale = 0) {
  if (std::isnan(value) && std::isnan(expected)) return 0;
  if (static_cast<Real>(value) == expected) return 0;
  int exponent = 0;
  std::frexp(std::max(std::fabs(expected), scale), &exponent);
  const Real unit = std::ldexp(1.0L, exponent - std::numeric_limits<T>::digits);
  return std::fabs(static_cast<Real>(value) - expected) / unit;
}

TEST(Evaluate, PublishedConstants) {
  for (const Constant& row : kConstants) {
    EXPECT_LE(ulps(ir::apply(row.op, row.a, row.b, row.c), Real{row.value}), 2)
        << ir::info(row.op).name << " " << row.a;
  }
}

// Long arithmetic keeps its digits in the tail, where the rounding of x / √2 counts 2 x²-fold.
// Values of mpmath with 50 digits.
TEST(Evaluate, TheTailOfTheNormalDistributionInLongArithmetic) {
  const std::pair<double, Real> rows[] = {{-5.3, 5.790134039964594116153286e-8L},
                                          {-12.1, 5.280558767433560334436836e-34L},
                                          {-21.7, 1.025813952696873624987111e-104L},
                                          {-25.9, 3.329849279066219666184867e-148L},
                                          {-30.3, 5.731723503315495294302358e-202L}};
  for (const auto& [x, expected] : rows)
    EXPECT_LE(std::fabs(ir::apply<Real>(Op::NormalCdf, x, 0, 0) / expected - 1), 2e-18L) << x;
}

// Sums of terms that cancel are judged by the size of the terms.
Real scale_of(Op op, Real a, Real b, Real c) {
  switch (op) {
    case Op::Fma: return std::fabs(a * b) + std::fabs(c);
    case Op::Mix: return std::fabs(a * (1 - c)) + std::fabs(b * c) + std::fabs(a);
    case Op::Gelu:
    case Op::Silu: return std::fabs(a);
    case Op::Smoothstep: return 1;
    case Op::Mod: return std::fabs(a);
    default: return 0;
  }
}

// Bound in ulp for the evaluator in T itself, which is this machine's libm (cbrt: 2.6), and for the
// reference formulas; the op table bounds backends, against the evaluator in long double.
constexpr double kBound = 4;

template <class T>
void sweep() {
  std::mt19937_64 random(7);
  for (Op op : all_ops()) {
    Real worst = 0;
    int finite = 0;
    for (int k = 0; k < 2000; ++k) {
      T x[3];
      for (T& v : x) v = static_cast<T>(static_cast<double>(random() >> 11) * 0x1p-53 * 6 - 3);
      if (k % 4 == 0) x[0] = std::round(x[0]);
      const Real expected = reference(op, x[0], x[1], x[2]);
      const T value = ir::apply<T>(op, x[0], x[1], x[2]);
      worst = std::max(worst, ulps(value, expected, scale_of(op, x[0], x[1], x[2])));
      finite += std::isfinite(value);
    }
    EXPECT_LE(worst, kBound) << ir::info(op).name;
    EXPECT_GT(finite, 300) << ir::info(op).name;
  }
}

TEST(Evaluate, EveryOpInDouble) { sweep<double>(); }
TEST(Evaluate, EveryOpInFloat) { sweep<float>(); }

}  // namespace
}  // namespace topograd::test
