// Residuals that are rounding: verdicts name it, in any units, and perfect fits are none of them.
#include <gtest/gtest.h>

#include "../../../frontend/value/math.hpp"
#include "../../../solver/solve.hpp"

#include <cmath>
#include <string>
#include <vector>

namespace topograd {
namespace {

constexpr Method kMethods[] = {Method::levenberg_marquardt, Method::dogleg, Method::newton,
                               Method::lbfgs};

/// a exp(−b t) through data with errors of `error`, both above an offset, in other units of b and
/// of the residuals.
struct Decay {
  explicit Decay(double offset, double error = 0.01, double unit = 1, double size = 1) {
    x[1] *= unit;
    const Parameters u = problem.add_parameters(x);
    for (int i = 0; i < 30; ++i) {
      const double t = 0.1 * i, y = 2 * std::exp(-1.3 * t) + error * std::sin(7.0 * i * i);
      problem.add_residual(((u[0] * exp(u[1] / unit * -t) + offset) - (y + offset)) * size);
    }
  }
  Summary solve_by(Method method, Precision precision) {
    SolverOptions options = {.backend = Backend::cpu, .method = method};
    options.precision = precision;
    return solve(problem, options);
  }
  std::vector<double> x = {1, 1};
  Problem problem;
};

bool is_hidden(const Summary& summary) {
  return summary.message.find("; rounding hides the minimum: residuals round by ") !=
         std::string::npos;
}

TEST(Rounding, OfResidualsIsNamedByVerdicts) {
  struct Case {
    Precision precision;
    double offset;
    bool hidden;
  };
  const Case cases[] = {
      {Precision::f64, 0, false},     {Precision::f64, 1e4, false},   {Precision::f64, 1e9, false},
      {Precision::f64, 1e15, true},   {Precision::f64, 1e16, true},   {Precision::f64, 1e17, true},
      {Precision::mixed, 1e9, false}, {Precision::mixed, 1e16, true}, {Precision::f32, 0, false},
      {Precision::f32, 10, false},    {Precision::f32, 1e5, true},    {Precision::f32, 1e8, true}};
  for (const Case& at : cases) {
    const double most = at.precision == Precision::f32 ? 1e6 : 1e12;
    for (const Method method : kMethods) {
      for (const double unit : {1.0, most, 1 / most}) {
        for (const double size : {1.0, most, 1 / most}) {
          Decay fit(at.offset, 0.01, unit, size);
          const Summary summary = fit.solve_by(method, at.precision);
          EXPECT_EQ(is_hidden(summary), at.hidden)
              << name(at.precision) << ", " << name(method) << ", offset " << at.offset << ", unit "
              << unit << ", size " << size << ": " << summary.message;
          if (method == Method::levenberg_marquardt || at.hidden) {
            EXPECT_EQ(summary.termination,
                      at.hidden ? Termination::NO_CONVERGENCE : Termination::CONVERGENCE)
                << name(method) << at.offset << summary.message;
          }
        }
      }
    }
  }
}

// An offset of 1e15 rounds to eighths, and uniform errors of a and b of them to a √(a² + b²) / √12.
TEST(Rounding, HasItsFigure) {
  Decay fit(1e15);
  const Summary summary = fit.solve_by(Method::levenberg_marquardt, Precision::f64);
  const std::string begin = "residuals round by ";
  const std::size_t at = summary.message.find(begin);
  ASSERT_NE(at, std::string::npos) << summary.message;
  EXPECT_NEAR(std::stod(summary.message.substr(at + begin.size())), 0.125 / std::sqrt(12.0), 0.02);
}

// Residuals of a perfect fit are rounding, too, but that hides nothing: from afar, from the
// minimum, and where coordinates are large.
TEST(Rounding, APerfectFitIsNotHidden) {
  for (const Precision precision : {Precision::f64, Precision::f32}) {
    for (const Method method : kMethods) {
      Decay fit(0, 0);
      EXPECT_FALSE(is_hidden(fit.solve_by(method, precision))) << name(method);
      const Summary again = fit.solve_by(method, precision);
      EXPECT_FALSE(is_hidden(again)) << name(method) << ": " << again.message;
      std::vector<double> x = {5.5e6, 4.4e5};
      Problem problem;
      const Parameters u = problem.add_parameters(x);
      for (int i = 0; i < 5; ++i)
        problem.add_residual(hypot(u[0] - (5.5e6 + 100.0 * i), u[1] - (4.4e5 - 70.0 * i * i)) -
                             std::hypot(100.0 * i - 8, 70.0 * i * i + 5));
      SolverOptions options = {.backend = Backend::cpu, .method = method};
      if (precision == Precision::f64) {
        EXPECT_FALSE(is_hidden(solve(problem, options))) << name(method);
      }
    }
  }
}

// No step lowers the cost where rounding is larger than what steps promise: the radius shrinks to
// nothing. It was said to be a kink.
TEST(Rounding, IsNoKink) {
  for (const double offset : {5e3, 1e4}) {
    Decay fit(offset);
    const Summary summary = fit.solve_by(Method::levenberg_marquardt, Precision::f32);
    EXPECT_EQ(summary.termination, Termination::CONVERGENCE) << summary.message;
    EXPECT_EQ(summary.message.find("a kink"), std::string::npos) << summary.message;
  }
}

}  // namespace
}  // namespace topograd
