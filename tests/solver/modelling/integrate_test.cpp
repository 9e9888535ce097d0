// Integrators and loops: orders and derivatives by closed forms, a filter's by its recursion.
#include "../../../frontend/integrate.hpp"
#include "../../../frontend/problem.hpp"
#include "../../../frontend/vec.hpp"
#include "../../../solver/evaluator.hpp"
#include "../../../solver/solve.hpp"

#include <gtest/gtest.h>
#include <Eigen/Dense>

#include <array>
#include <cmath>
#include <string>
#include <vector>

namespace topograd {
namespace {

// y′ = −2 t y from 1 has y = exp(−t²).
TEST(Integrate, HasTheOrderOfItsMethod) {
  const struct {
    Integrator method;
    double order, error;
  } rows[] = {{Integrator::euler, 1, 3e-2},
              {Integrator::rk4, 4, 2e-6},
              {Integrator::dormand_prince, 5, 2e-8},
              {Integrator::implicit_euler, 1, 3e-2},
              {Integrator::trapezoidal, 2, 3e-3}};
  const auto f = [](double t, double y) { return -2 * t * y; };
  for (const auto& row : rows) {
    SCOPED_TRACE(row.order);
    double errors[2] = {};
    for (int k = 0; k < 2; ++k) {
      const std::vector<double> y =
          integrate(f, 1.0, {0, 0.5, 1.5}, {.method = row.method, .steps = 16 << k});
      ASSERT_EQ(y.size(), 3U);
      EXPECT_EQ(y[0], 1);
      EXPECT_LT(std::fabs(y[1] - std::exp(-0.25)), row.error);
      errors[k] = std::fabs(y[2] - std::exp(-2.25));
    }
    EXPECT_LT(errors[0], row.error);
    EXPECT_NEAR(std::log2(errors[0] / errors[1]), row.order, 0.35);
  }
}

TEST(Integrate, GoesBackwardOverStatesOfAnyKind) {
  const std::vector<double> times = {1, 0.5, 0};
  const auto rotate = [](double, const auto& y) {
    auto out = y;
    out[0] = -y[1], out[1] = y[0];
    return out;
  };
  const IntegrateOptions fine{.method = Integrator::dormand_prince, .steps = 20};
  const auto of_vector =
      integrate(rotate, std::vector<double>{std::cos(1), std::sin(1)}, times, fine);
  const auto of_array =
      integrate(rotate, std::array<double, 2>{std::cos(1), std::sin(1)}, times, fine);
  EXPECT_NEAR(of_vector[2][0], 1, 1e-9);
  EXPECT_NEAR(of_vector[2][1], 0, 1e-9);
  EXPECT_EQ(of_array[2][0], of_vector[2][0]);
}

// A step of rk4 of y′ = −k y multiplies y by R(z), z = −k h.
TEST(Integrate, HasTheDerivativesOfItsSteps) {
  constexpr int kTimes = 200, kSteps = 2;
  constexpr double kStep = 0.01;
  std::vector<double> v = {1.3, 2.1}, times;
  for (int n = 0; n < kTimes; ++n) times.push_back(kSteps * kStep * n);
  Problem problem;
  const Parameters x = problem.add_parameters(v, 2);
  const auto f = [&](double, const Value& y) { return -x(0, 1) * y; };
  problem.add_residual(integrate<Value>(f, x(0, 0), times, {.steps = kSteps}));
  EXPECT_EQ(problem.host_blocks().size(), 1U);
  Evaluator evaluator(problem, {.backend = Backend::cpu});
  const Eigen::VectorXd y = evaluator.residuals();
  const Eigen::MatrixXd J = evaluator.jacobian();
  const double z = -v[1] * kStep;
  const double R = 1 + z + z * z / 2 + z * z * z / 6 + z * z * z * z / 24;
  const double slope = 1 + z + z * z / 2 + z * z * z / 6;
  for (int n = 0; n < kTimes; ++n) {
    const double factor = std::pow(R, kSteps * n);
    EXPECT_NEAR(y[n], v[0] * factor, 1e-13);
    EXPECT_NEAR(J(n, 0), factor, 1e-13);
    EXPECT_NEAR(J(n, 1), -v[0] * kSteps * n * factor / R * slope * kStep, 1e-12);
  }
}

// A step of y′ = −k y multiplies y by R(z), z = −k h, far beyond what explicit steps stand.
TEST(Integrate, SolvesImplicitSteps) {
  constexpr int kSteps = 10;
  const struct {
    Integrator method;
    double factor, slope;  // R and R′ at −5
  } rows[] = {{Integrator::implicit_euler, 1. / 6, 1. / 36},
              {Integrator::trapezoidal, -1.5 / 3.5, 1 / (3.5 * 3.5)}};
  for (const auto& row : rows) {
    std::vector<double> v = {1.3, 50};
    Problem problem;
    const Parameters x = problem.add_parameters(v, 2);
    const auto f = [&](double, const Value& y) { return -x(0, 1) * y; };
    const IntegrateOptions options{.method = row.method, .steps = kSteps, .corrections = 3};
    problem.add_residual(integrate<Value>(f, x(0, 0), {0, 1, 2}, options));
    Evaluator evaluator(problem, {.backend = Backend::cpu});
    const Eigen::VectorXd y = evaluator.residuals();
    const Eigen::MatrixXd J = evaluator.jacobian();
    for (int n = 0; n < 3; ++n) {
      const double factor = std::pow(row.factor, kSteps * n);
      EXPECT_NEAR(y[n] / (v[0] * factor), 1, 1e-11);
      EXPECT_NEAR(J(n, 0) / factor, 1, 1e-9);
      const double by_rate = -0.1 * v[0] * kSteps * n * factor / row.factor * row.slope;
      EXPECT_NEAR(J(n, 1), by_rate, 1e-7 * std::fabs(by_rate));
    }
  }
}

// Robertson's equations at 40, by a solver of order 5 with tolerances of 1e-11.
TEST(Integrate, SolvesStiffEquations) {
  const auto f = [](double, const auto& y) {
    auto out = y;
    const auto one = 0.04 * y[0], two = 1e4 * y[1] * y[2], three = 3e7 * y[1] * y[1];
    out[0] = two - one, out[1] = one - two - three, out[2] = three;
    return out;
  };
  const IntegrateOptions fine{.method = Integrator::trapezoidal, .steps = 400, .corrections = 10};
  const auto y = integrate(f, std::array<double, 3>{1, 0, 0}, {0, 4, 40}, fine);
  EXPECT_NEAR(y[2][0], 0.715827069, 1e-5);
  EXPECT_NEAR(y[2][1], 9.18553476e-6, 1e-9);
  EXPECT_NEAR(y[2][2], 0.284163746, 1e-5);
  const IntegrateOptions few{.method = Integrator::implicit_euler, .steps = 1, .corrections = 1};
  EXPECT_TRUE(std::isnan(integrate(f, std::vector<double>{1, 0, 0}, {0, 40}, few)[1][0]));
  const auto of_vec = [](double, const Vec3& v) { return v; };
  EXPECT_THROW(integrate(of_vec, Vec3(1.0, 2.0, 3.0), {0, 1}, few), Error);
}

// A throw in a vacuum from an unknown start; rk4 is exact for parabolas.
TEST(Integrate, FitsStartsOfVectors) {
  std::vector<double> v = {0, 0, 0, 1, 1, 1}, times;
  for (int n = 0; n < 60; ++n) times.push_back(0.05 * n);
  Problem problem;
  const Parameters x = problem.add_parameters(v, 3);
  std::vector<Value> state;
  for (std::size_t b = 0; b < 2; ++b)
    for (int k = 0; k < 3; ++k) state.push_back(x(b, k));
  const auto f = [](double, const std::vector<Value>& s) {
    return std::vector<Value>{s[3], s[4], s[5], 0.0, 0.0, -9.81};
  };
  const auto states = integrate(f, state, times);
  std::vector<Value> rows;
  for (std::size_t n = 0; n < times.size(); ++n) {
    const double t = times[n], seen[3] = {1 + 2 * t, 2 - t, 3 + 4 * t - 9.81 * t * t / 2};
    for (std::size_t k = 0; k < 3; ++k) rows.push_back(states[n][k] - seen[k]);
  }
  problem.add_residual(rows);
  EXPECT_LT(solve(problem, {.backend = Backend::cpu}).final_cost, 1e-20);
  const double expected[6] = {1, 2, 3, 2, -1, 4};
  for (int k = 0; k < 6; ++k) EXPECT_NEAR(v[k], expected[k], 1e-9);
}

TEST(Integrate, RefusesBadTimes) {
  const auto f = [](double, const std::vector<double>& y) { return y; };
  const auto shorter = [](double, const std::vector<double>&) { return std::vector<double>{1}; };
  const std::vector<double> y = {1, 2};
  const auto text = [](auto&& call) -> std::string {
    try {
      call();
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(text([&] { integrate(f, y, {}); }), "integrate: expected at least one time, got none");
  EXPECT_EQ(text([&] {
              integrate(f, y, {0, 1, 0.5});
            }),
            "integrate: expected finite times that only ascend or only descend, got 0.500000 at "
            "position 2");
  EXPECT_EQ(text([&] {
              integrate(f, y, {0, 1}, {.steps = 0});
            }),
            "integrate: expected steps >= 1, got 0");
  EXPECT_EQ(text([&] {
              integrate(f, y, {0, 1}, {.corrections = 0});
            }),
            "integrate: expected corrections >= 1, got 0");
  EXPECT_EQ(text([&] {
              integrate(shorter, y, {0, 1});
            }),
            "integrate: expected a derivative of 2 numbers, as the state has, got 1");
}

// yₖ₊₁ = a yₖ + uₖ: yₖ = aᵏ y₀ + Σ aᵏ⁻¹⁻ʲ uⱼ, and ∂yₖ₊₁/∂a = yₖ + a ∂yₖ/∂a.
TEST(Scan, HasTheDerivativesOfItsRecursion) {
  constexpr std::size_t kCount = 10'000;
  std::vector<double> v = {0.999, 0.4}, input(kCount);
  for (std::size_t k = 0; k < kCount; ++k) input[k] = std::sin(0.01 * static_cast<double>(k));
  Problem problem;
  const Parameters x = problem.add_parameters(v, 2);
  const auto filter = [&](std::size_t k, const Value& y) { return x(0, 0) * y + input[k]; };
  const std::vector<Value> states = scan(kCount, x(0, 1), filter);
  std::vector<Value> rows;
  for (std::size_t k = 0; k <= kCount; k += 100) rows.push_back(states[k]);
  problem.add_residual(rows);
  EXPECT_EQ(problem.host_blocks().size(), 1U);
  Evaluator evaluator(problem, {.backend = Backend::cpu});
  const Eigen::VectorXd r = evaluator.residuals();
  const Eigen::MatrixXd J = evaluator.jacobian();
  double y = v[1], by_a = 0, by_start = 1;
  for (std::size_t k = 0; k <= kCount; ++k) {
    if (k % 100 == 0) {
      const auto row = static_cast<Eigen::Index>(k / 100);
      EXPECT_NEAR(r[row], y, 1e-12 * (1 + std::fabs(y)));
      EXPECT_NEAR(J(row, 0), by_a, 1e-12 * (1 + std::fabs(by_a)));
      EXPECT_NEAR(J(row, 1), by_start, 1e-12);
    }
    if (k == kCount) break;
    by_a = y + v[0] * by_a;
    by_start *= v[0];
    y = v[0] * y + input[k];
  }
}

TEST(Scan, RefusesStatesThatGrow) {
  const auto grows = [](std::size_t k, std::vector<double> y) {
    if (k == 2) y.push_back(0);
    return y;
  };
  EXPECT_EQ(scan(0, std::vector<double>{1, 2}, grows).size(), 1U);
  EXPECT_EQ(scan(2, std::vector<double>{1, 2}, grows).size(), 3U);
  const auto message = [&](int n) -> std::string {
    try {
      scan(n, std::vector<double>{1, 2}, grows);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_NE(message(3).find("a state of 2 numbers after step 2"), std::string::npos) << message(3);
  EXPECT_NE(message(-1).find("n >= 0 steps, got -1"), std::string::npos) << message(-1);
}

}  // namespace
}  // namespace topograd
