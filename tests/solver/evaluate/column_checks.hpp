// Checks of columns that are constant or count up until somebody changes them, on any backend.
#pragma once

#include "../../../frontend/value/math.hpp"
#include "../../../solver/evaluator.hpp"
#include "../../../solver/solve.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace topograd::test {

/// r_k = 2 (x_{k+1} - x_k) - d_k, at first with one d for all: values and gradient by hand while
/// numbers change, residuals on other unknowns are added, and some are removed.
inline void check_changing_columns(const SolverOptions& options) {
  constexpr std::size_t kCount = 5000;
  std::vector<double> x(kCount + 1), d(kCount, 0.5);
  for (std::size_t k = 0; k < x.size(); ++k) x[k] = 0.25 * static_cast<double>(k % 8);
  struct Row {
    std::size_t from, to;
  };
  std::vector<Row> rows;
  std::vector<Residual> residuals;
  Problem problem;
  const Parameters p = problem.add_parameters(x);
  const Data data = problem.add_data(d);
  const auto add = [&](std::size_t from, std::size_t to, std::size_t number) {
    residuals.push_back(problem.add_residual(2.0 * (p[to] - p[from]) - data[number]));
    rows.push_back({from, to});
  };
  for (std::size_t k = 0; k < kCount; ++k) add(k, k + 1, k);
  std::vector<std::size_t> number(kCount);
  for (std::size_t k = 0; k < kCount; ++k) number[k] = k;

  Evaluator e(problem, options);
  const auto check = [&](const char* when) {
    std::vector<double> gradient(x.size(), 0.0);
    double cost = 0;
    for (std::size_t k = 0; k < rows.size(); ++k) {
      const double r = 2.0 * (x[rows[k].to] - x[rows[k].from]) - d[number[k]];
      cost += r * r / 2;
      gradient[rows[k].to] += 2 * r;
      gradient[rows[k].from] -= 2 * r;
    }
    // All numbers are small multiples of a power of two: every sum is exact.
    EXPECT_EQ(e.cost(), cost) << when;
    const Eigen::VectorXd g = e.gradient();
    for (std::size_t k = 0; k < x.size(); ++k) ASSERT_EQ(g[k], gradient[k]) << when << ", " << k;
  };
  check("one number for all");
  d[4321] = -1.5;
  problem.set(data, d);
  check("one of them changed");
  d.assign(d.size(), 0.75);
  problem.set(data, d);
  check("all of them changed");
  add(7, 3, 11);
  number.push_back(11);
  check("other unknowns joined");
  problem.remove(residuals.back());
  rows.pop_back();
  number.pop_back();
  check("and left again");
}

}  // namespace topograd::test
