// Solves within bounds with steps on the engine.
#include "box_cases.hpp"

#include <gtest/gtest.h>

#include "../../../frontend/value/math.hpp"
#include "../../../solver/solve.hpp"

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "../loop/step_walk.hpp"

namespace topograd::test {
namespace {

/// Several slightly different Rosenbrock valleys, cut off by a box.
std::unique_ptr<OwnedProblem> valleys() {
  constexpr std::size_t kCount = 40;
  auto out = std::make_unique<OwnedProblem>();
  for (std::size_t k = 0; k < kCount; ++k) {
    const double t = static_cast<double>(k) / kCount;
    out->x.insert(out->x.end(), {-1.2 + 0.1 * t, 0.4});
  }
  const Parameters x = out->problem.add_parameters(out->x, 2);
  for (std::size_t k = 0; k < kCount; ++k) {
    out->problem.add_residual({10.0 * (x(k, 1) - x(k, 0) * x(k, 0)), 1.0 - x(k, 0)});
    out->problem.set_bounds(x, k, 0, -2, 0.8 - 0.005 * static_cast<double>(k));
    out->problem.set_bounds(x, k, 1, -2, 0.5);
  }
  return out;
}

/// A square of springs that hangs from its corners and sinks to a floor, next to a wall.
std::unique_ptr<OwnedProblem> cloth() {
  constexpr std::size_t kWidth = 8;
  auto out = std::make_unique<OwnedProblem>();
  for (std::size_t k = 0; k < kWidth * kWidth; ++k) {
    const double t = static_cast<double>(k);
    out->x.insert(out->x.end(), {static_cast<double>(k % kWidth) + 0.05 * std::sin(t),
                                 static_cast<double>(k / kWidth), 0.05 * std::sin(7 * t)});
  }
  const Parameters x = out->problem.add_parameters(out->x, 3);
  Problem& problem = out->problem;
  const auto spring = [&](std::size_t a, std::size_t b, double rest) {
    problem.add_residual(norm(x.vec3(a) - x.vec3(b)) - rest);
  };
  for (std::size_t k = 0; k < kWidth * kWidth; ++k) {
    const std::size_t i = k % kWidth, j = k / kWidth;
    if (i + 1 < kWidth) spring(k, k + 1, 1.1);
    if (j + 1 < kWidth) spring(k, k + kWidth, 1.1);
    if (i + 1 < kWidth && j + 1 < kWidth) spring(k, k + kWidth + 1, 1.5);
    problem.add_residual(0.3 * (x(k, 2) + 1.0));
    const bool corner = (i == 0 || i + 1 == kWidth) && (j == 0 || j + 1 == kWidth);
    if (corner) {
      problem.set_constant(x, k);
      continue;
    }
    problem.set_bounds(x, k, 2, -0.6, 10);
    problem.set_bounds(x, k, 0, -1, 7.05);
  }
  return out;
}

}  // namespace

void check_obstacle(const SolverOptions& options, double tolerance) {
  constexpr std::size_t kWidth = 17;
  std::vector<double> u(kWidth * kWidth, 0.0), floor(u.size());
  for (std::size_t k = 0; k < u.size(); ++k) {
    const double i = static_cast<double>(k % kWidth) - 8, j = static_cast<double>(k / kWidth) - 7;
    floor[k] = 0.5 - 0.03 * (i * i + 0.5 * j * j);
  }
  std::vector<double> expected = u;
  const auto inside = [](std::size_t k) {
    const std::size_t i = k % kWidth, j = k / kWidth;
    return i > 0 && i + 1 < kWidth && j > 0 && j + 1 < kWidth;
  };
  for (int sweep = 0; sweep < 3000; ++sweep) {
    for (std::size_t k = 0; k < u.size(); ++k) {
      if (!inside(k)) continue;
      expected[k] = std::max(
          floor[k],
          (expected[k - 1] + expected[k + 1] + expected[k - kWidth] + expected[k + kWidth]) / 4);
    }
  }
  Problem problem;
  const Parameters x = problem.add_parameters(u);
  for (std::size_t k = 0; k < u.size(); ++k) {
    if (k % kWidth + 1 < kWidth) problem.add_residual(x[k] - x[k + 1]);
    if (k / kWidth + 1 < kWidth) problem.add_residual(x[k] - x[k + kWidth]);
    if (!inside(k)) {
      problem.set_constant(x, k);
      continue;
    }
    u[k] = 0.7;  // above
    problem.set_lower_bound(x, k, 0, floor[k]);
  }
  const Summary summary = solve(problem, exact_steps(options));
  EXPECT_EQ(summary.linear_solver_note.find("host"), std::string::npos);
  EXPECT_EQ(summary.termination, Termination::CONVERGENCE) << summary.message;
  std::size_t touching = 0;
  for (std::size_t k = 0; k < u.size(); ++k) {
    EXPECT_NEAR(u[k], expected[k], tolerance) << k;
    if (inside(k) && expected[k] == floor[k]) {
      EXPECT_EQ(u[k], floor[k]) << k;
      ++touching;
    }
  }
  EXPECT_GT(touching, 10u);
}

void check_against_host_steps(const SolverOptions& options) {
  {
    SCOPED_TRACE("valleys");
    expect_same_walk(valleys, options, "bounds");
  }
  {
    SCOPED_TRACE("cloth");
    expect_same_walk(cloth, options, "bounds");
  }
}

void check_bounds_hold_exactly(const SolverOptions& options) {
  constexpr std::size_t kCount = 60;
  std::vector<double> v(kCount, 0.0), high(kCount);
  Problem problem;
  const Parameters x = problem.add_parameters(v);
  for (std::size_t k = 0; k < kCount; ++k) {
    high[k] = 0.7 + 0.0123 * static_cast<double>(k);
    problem.add_residual(x[k] * x[k] - 4.0);
    problem.set_upper_bound(x, k, 0, high[k]);
    v[k] = 0.5;
  }
  const Summary summary = solve(problem, exact_steps(options));
  EXPECT_EQ(summary.termination, Termination::CONVERGENCE) << summary.message;
  for (std::size_t k = 0; k < kCount; ++k) {
    EXPECT_LE(v[k], high[k]);
    EXPECT_NEAR(v[k], high[k], 1e-7);
  }
}

}  // namespace topograd::test
