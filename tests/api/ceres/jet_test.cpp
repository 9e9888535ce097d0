// Jets against complex steps, long differences and the rules of calculus.
#include <gtest/gtest.h>

#include <Eigen/Dense>

#include <cmath>
#include <complex>
#include <functional>
#include <limits>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "ceres/ceres.h"

namespace {

using ceres::Jet;
using J1 = Jet<double, 1>;
using J2 = Jet<double, 2>;

/// (f(x + h) - f(x - h)) / 2h in long double, extrapolated once: error O(h^4).
double Slope(const std::function<long double(long double)>& f, double at) {
  const long double h = 1e-4L * (1 + std::abs(at));
  const auto central = [&](long double step) { return (f(at + step) - f(at - step)) / (2 * step); };
  return static_cast<double>((4 * central(h / 2) - central(h)) / 3);
}

struct Row {
  std::string name;
  std::function<J1(const J1&)> jet;
  std::function<long double(long double)> exact;
  std::vector<double> points;
};

#define TG_ROW(f, ...)                                                                      \
  {                                                                                         \
#f, [](const J1& x) { return ceres::f(x); }, [](long double x) { return std::f(x); }, { \
      __VA_ARGS__                                                                           \
    }                                                                                       \
  }

const std::vector<Row> kFunctions = {
    TG_ROW(sqrt, 0.3, 2, 9),        TG_ROW(cbrt, -2, 0.3, 5),      TG_ROW(exp, -3, 0, 2),
    TG_ROW(exp2, -3, 0, 2),         TG_ROW(expm1, -1, 1e-3, 2),    TG_ROW(log, 0.1, 1, 7),
    TG_ROW(log2, 0.1, 1, 7),        TG_ROW(log10, 0.1, 1, 7),      TG_ROW(log1p, -0.5, 0, 3),
    TG_ROW(sin, -2, 0, 1.3),        TG_ROW(cos, -2, 0, 1.3),       TG_ROW(tan, -1, 0, 1.3),
    TG_ROW(asin, -0.9, 0, 0.5),     TG_ROW(acos, -0.9, 0, 0.5),    TG_ROW(atan, -3, 0, 2),
    TG_ROW(sinh, -2, 0, 1.3),       TG_ROW(cosh, -2, 0, 1.3),      TG_ROW(tanh, -2, 0, 1.3),
    TG_ROW(asinh, -2, 0, 3),        TG_ROW(acosh, 1.1, 2, 7),      TG_ROW(atanh, -0.9, 0, 0.5),
    TG_ROW(erf, -1, 0, 0.7),        TG_ROW(erfc, -1, 0, 0.7),      TG_ROW(abs, -2, 0.5, 3),
    TG_ROW(floor, -1.5, 0.5, 2.25), TG_ROW(ceil, -1.5, 0.5, 2.25), TG_ROW(fabs, -2, 0.5, 3),
};

TEST(Jet, FunctionsCarryTheirDerivative) {
  for (const Row& row : kFunctions) {
    for (const double at : row.points) {
      const J1 y = row.jet(J1(at, 0));
      EXPECT_DOUBLE_EQ(y.a, static_cast<double>(row.exact(at))) << row.name << "(" << at << ")";
      const double expected = Slope(row.exact, at);
      EXPECT_NEAR(y.v[0], expected, 1e-11 * (1 + std::abs(expected)))
          << row.name << "(" << at << ")";
    }
  }
}

/// Everything with an analytic continuation, in one expression.
template <class T>
T Mixed(const T& x) {
  using std::cos;
  using std::exp;
  using std::log;
  using std::pow;
  using std::sin;
  using std::sqrt;
  return exp(sin(x) * T(0.7)) / (T(1.5) + cos(x)) - sqrt(x) * log(x) + pow(x, 2.5) - T(3) / x;
}

TEST(Jet, ExpressionsAgreeWithAComplexStep) {
  for (const double at : {0.4, 1.0, 2.7}) {
    const double expected = Mixed(std::complex<double>(at, 1e-100)).imag() / 1e-100;
    EXPECT_NEAR(Mixed(J1(at, 0)).v[0], expected, 4e-15 * (1 + std::abs(expected))) << at;
  }
}

TEST(Jet, SecondDerivativesComeFromJetsOfJets) {
  using Outer = Jet<J1, 1>;
  const Outer x(J1(0.8, 0), 0);
  const Outer y = exp(x * x);
  // (e^(x²))″ = (2 + 4x²) e^(x²).
  EXPECT_NEAR(y.v[0].v[0], (2 + 4 * 0.64) * std::exp(0.64), 1e-13);
}

struct Pair {
  std::string name;
  std::function<J2(const J2&, const J2&)> jet;
  std::function<long double(long double, long double)> exact;
  double x, y;
};

TEST(Jet, FunctionsOfTwoHaveBothPartialDerivatives) {
  const auto pow_ = [](const J2& x, const J2& y) { return pow(x, y); };
  const std::vector<Pair> rows = {
      {"+", [](auto& x, auto& y) { return x + y; }, std::plus<long double>(), 1.5, -2},
      {"-", [](auto& x, auto& y) { return x - y; }, std::minus<long double>(), 1.5, -2},
      {"*", [](auto& x, auto& y) { return x * y; }, std::multiplies<long double>(), 1.5, -2},
      {"/", [](auto& x, auto& y) { return x / y; }, std::divides<long double>(), 1.5, -2},
      {"pow", pow_, [](auto x, auto y) { return std::pow(x, y); }, 1.5, -2.25},
      {"atan2", [](auto& x, auto& y) { return atan2(x, y); },
       [](auto x, auto y) { return std::atan2(x, y); }, -1.5, -2},
      {"hypot", [](auto& x, auto& y) { return hypot(x, y); },
       [](auto x, auto y) { return std::hypot(x, y); }, -1.5, 2},
      {"fmax", [](auto& x, auto& y) { return fmax(x, y); },
       [](auto x, auto y) { return std::fmax(x, y); }, 1.5, 2},
      {"fmin", [](auto& x, auto& y) { return fmin(x, y); },
       [](auto x, auto y) { return std::fmin(x, y); }, 1.5, 2},
      {"fdim", [](auto& x, auto& y) { return fdim(x, y); },
       [](auto x, auto y) { return std::fdim(x, y); }, 2.5, 2},
      {"midpoint", [](auto& x, auto& y) { return midpoint(x, y); },
       [](auto x, auto y) { return std::midpoint(x, y); }, 1.5, 2},
      {"lerp", [](auto& x, auto& y) { return lerp(x, y, x * y); },
       [](auto x, auto y) { return std::lerp(x, y, x * y); }, 1.5, 2},
  };
  for (const Pair& row : rows) {
    const J2 z = row.jet(J2(row.x, 0), J2(row.y, 1));
    EXPECT_NEAR(z.a, static_cast<double>(row.exact(row.x, row.y)), 1e-15) << row.name;
    EXPECT_NEAR(z.v[0], Slope([&](auto x) { return row.exact(x, row.y); }, row.x), 1e-11)
        << row.name;
    EXPECT_NEAR(z.v[1], Slope([&](auto y) { return row.exact(row.x, y); }, row.y), 1e-11)
        << row.name;
  }
}

TEST(Jet, FunctionsOfNumbersAreThoseOfTheStandard) {
  EXPECT_EQ(ceres::fabs(-2.5), 2.5);
  EXPECT_EQ(ceres::lerp(1.0, 3.0, 0.25), 1.5);
  const double huge = std::numeric_limits<double>::max();
  EXPECT_EQ(midpoint(J1(huge, 0), J1(huge)).a, huge);
  EXPECT_EQ(ceres::midpoint(huge, huge), huge);
}

TEST(Jet, MaximaOfEqualNumbersHaveTheMeanDerivative) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const J2 x(2, 0), y(2, 1);
  for (const J2& z : {fmax(x, y), fmin(x, y)}) {
    EXPECT_EQ(z.a, 2);
    EXPECT_EQ(z.v[0], 0.5);
    EXPECT_EQ(z.v[1], 0.5);
  }
  EXPECT_EQ(fmax(x, J2(nan)).v[0], 1);
  EXPECT_EQ(fmin(J2(nan), x).v[0], 1);
}

TEST(Jet, PowersOfNegativeNumbersKeepTheDirectionsWithoutTheExponent) {
  // (-1.5)^n for an integer n that changes in the second direction alone.
  const J2 z = pow(J2(-1.5, 0), J2(3, 1));
  EXPECT_EQ(z.a, -3.375);
  EXPECT_NEAR(z.v[0], 3 * 2.25, 1e-15);
  EXPECT_TRUE(std::isnan(z.v[1]));
  EXPECT_EQ(pow(-1.5, J2(2, 1)).v[0], 0);
}

TEST(Jet, JetsOfJetsCompareWithNumbers) {
  using Outer = Jet<J1, 1>;
  const Outer x(J1(2, 0), 0);
  EXPECT_TRUE(x > 1.0 && 1.0 < x && x == 2.0 && isless(x, 3.0) && isgreater(3.0, x));
  EXPECT_EQ((Jet<Outer, 2>(3.0) * Jet<Outer, 2>(2.0)).a.a.a, 6);
}

TEST(Jet, NumbersMixWithJets) {
  const J1 x(3, 0);
  EXPECT_EQ((2.0 - x / 4.0 + 1.0 / x).v[0], -0.25 - 1.0 / 9);
  EXPECT_EQ((x * 2.0 - 1.0).a, 5);
  EXPECT_TRUE(x > 2.0 && 2.0 < x && x == 3.0 && x != 4.0 && x <= J1(3) && x >= 3.0);
}

TEST(Jet, KinksAndZeros) {
  EXPECT_EQ(pow(J1(0, 0), 0.0).v[0], 0);
  EXPECT_EQ(pow(J1(0, 0), 1.0).v[0], 1);
  EXPECT_EQ(pow(J1(0, 0), 2.0).v[0], 0);
  // A constant integer exponent leaves negative bases differentiable.
  EXPECT_EQ(pow(J1(-2, 0), J1(3)).v[0], 12);
  EXPECT_EQ(pow(J1(-2, 0), J1(3)).a, -8);
  EXPECT_EQ(abs(J1(-0.0, 0)).v[0], -1);
  EXPECT_EQ(abs(J1(0.0, 0)).v[0], 1);
  EXPECT_EQ(hypot(J1(0, 0), J1(0)).v[0], 0);
  EXPECT_EQ(sqrt(J1(0, 0)).v[0], std::numeric_limits<double>::infinity());
}

TEST(Jet, IsAScalarOfEigen) {
  Eigen::Matrix<J2, 2, 2> m;
  m << J2(2, 0), J2(1), J2(1), J2(3, 1);
  const J2 determinant = m.determinant();
  EXPECT_EQ(determinant.a, 5);
  EXPECT_EQ(determinant.v[0], 3);
  EXPECT_EQ(determinant.v[1], 2);
  const Eigen::Matrix<J2, 2, 1> v = m * Eigen::Matrix<J2, 2, 1>(J2(1), J2(2));
  EXPECT_EQ(v[1].v[1], 2);
  EXPECT_NEAR(v.norm().a, std::sqrt(16.0 + 49.0), 1e-14);
}

TEST(Jet, ClassificationLooksAtTheValue) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_TRUE(ceres::isnan(J1(nan)) && !ceres::isfinite(J1(nan)));
  EXPECT_TRUE(ceres::IsFinite(J1(1)) && ceres::isinf(J1(1) / 0.0));
  EXPECT_TRUE(isless(J1(1), J1(2)) && isless(J1(1), 2.0) && !isless(2.0, J1(1)));
  EXPECT_TRUE(islessequal(J1(2), 2.0) && isgreaterequal(J1(2), J1(2)) && isgreater(3.0, J1(2)));
  EXPECT_TRUE(islessgreater(J1(1), J1(2)) && !islessgreater(J1(nan), J1(2)));
  EXPECT_TRUE(isunordered(J1(nan), J1(2)) && !isunordered(J1(1), 2.0));
}

struct Tail {
  template <typename T>
  bool operator()(const T* x, T* r) const {
    using std::erfc;
    r[0] = erfc(x[0]);
    return true;
  }
};

/// erfc of a traced number in its tail. Reference: Abramowitz and Stegun, table 7.3, and mpmath.
TEST(ValueFunctions, TheComplementOfErfHasItsDigits) {
  for (const auto& [at, expected] : {std::pair{6.0, 2.1519736712498913e-17},
                                     {0.5, 0.4795001221869535},
                                     {-2.0, 1.9953222650189528},
                                     {20.0, 5.3958656116079005e-176}}) {
    double x = at, cost = 0;
    std::vector<double> residuals;
    ceres::Problem problem;
    problem.AddResidualBlock(new ceres::AutoDiffCostFunction<Tail, 1, 1>(new Tail), nullptr, &x);
    ASSERT_TRUE(problem.Evaluate({}, &cost, &residuals, nullptr, nullptr));
    EXPECT_NEAR(residuals[0], expected, 1e-13 * expected) << at;
  }
}

TEST(OrderedGroups, WithoutGroupsThereIsNoSmallest) {
  ceres::OrderedGroups<int> groups;
  EXPECT_THROW(groups.MinNonZeroGroup(), topograd::Error);
  groups.AddElementToGroup(7, 3);
  EXPECT_EQ(groups.MinNonZeroGroup(), 3);
}

}  // namespace
