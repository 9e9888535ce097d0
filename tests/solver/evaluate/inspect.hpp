// Problems with a first error at a known place, and the messages on any backend.
#pragma once

#include <gtest/gtest.h>

#include "../../../frontend/value/math.hpp"
#include "../../../ir/error.hpp"
#include "../../../solver/solve.hpp"

#include <cmath>
#include <functional>
#include <regex>
#include <string>
#include <vector>

namespace topograd::test {

inline void expect_message(const std::function<void()>& call, ErrorCode code,
                           const std::string& pattern) {
  try {
    call();
    ADD_FAILURE() << "no error; expected " << pattern;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    EXPECT_TRUE(std::regex_match(error.what(), std::regex(pattern))) << error.what();
  }
}

/// A NaN, an infinite derivative and (with another method) an energy are named with label,
/// topology, instance, op and operands.
inline void expect_nonfinite_places(SolverOptions options) {
  const std::string hash = "\\(topology [0-9a-f]{32}\\)";
  {
    std::vector<double> x = {4, 9, -0.1, 16};
    Problem problem;
    const Parameters p = problem.add_parameters(x);
    for (std::size_t k = 0; k < x.size(); ++k) {
      problem.add_residual(sqrt(p[k]) - 1.0, {.label = k == 2 ? "bad one" : "fine"});
    }
    // The operand as the kernels see it.
    const std::string seen =
        options.precision == Precision::f32 ? "-0.10000000149011612" : "-0.10000000000000001";
    expect_message(
        [&] { solve(problem, options); }, ErrorCode::NonFinite,
        "solve: residual \"bad one\" #2 " + hash + " is nan: sqrt\\(" + seen + "\\) is nan");
  }
  {
    std::vector<double> x = {1, 0};
    Problem problem;
    const Parameters p = problem.add_parameters(x);
    for (std::size_t k = 0; k < x.size(); ++k) problem.add_residual(sqrt(p[k]) + 1.0);
    expect_message([&] { solve(problem, options); }, ErrorCode::NonFinite,
                   "solve: the derivative of residual \"residual0\" #1 " + hash +
                       " by parameter array 0, block 1, coordinate 0 is inf: div\\(0.5, 0\\) is "
                       "inf");
  }
  {
    std::vector<double> x = {1, 2, 0};
    Problem problem;
    const Parameters p = problem.add_parameters(x);
    for (std::size_t k = 0; k < x.size(); ++k) problem.add_energy(log(p[k]));
    options.method = Method::lbfgs;
    expect_message([&] { solve(problem, options); }, ErrorCode::NonFinite,
                   "solve: energy \"energy0\" #2 " + hash + " is -inf: log\\(0\\) is -inf");
  }
}

/// Strict stops at the start and at a trial, guarded continues, on any backend.
inline void expect_domain_policies(SolverOptions options) {
  const std::string hash = "\\(topology [0-9a-f]{32}\\)";
  {
    std::vector<double> x = {1, -4};
    Problem problem;
    const Parameters p = problem.add_parameters(x);
    for (std::size_t k = 0; k < x.size(); ++k)
      problem.add_residual(select(p[k] > 0.0, sqrt(p[k]), 0.0) + 1.0 / (p[k] + 4.0),
                           {.label = "root"});
    options.domain = DomainPolicy::strict;
    expect_message([&] { solve(problem, options); }, ErrorCode::InvalidArgument,
                   "solve: domain error at the start: residual \"root\" #1 " + hash +
                       ": div\\(1, 0\\) is outside of the domain");
  }
  // A Gauss-Newton step from 9 to log x = -1: x + x (-1 - log x) < 0.
  std::vector<double> x = {9};
  Problem problem;
  problem.add_residual(log(problem.add_parameters(x)[0]) + 1.0, {.label = "log"});
  options.domain = DomainPolicy::strict;
  expect_message([&] { solve(problem, options); }, ErrorCode::InvalidArgument,
                 "solve: domain error at a trial: residual \"log\" #0 " + hash +
                     ": log\\(-1[0-9.]*\\) is outside of the domain");
  EXPECT_EQ(x[0], 9);
  options.domain = DomainPolicy::mathematical;
  const Summary plain = solve(problem, options);
  EXPECT_GE(plain.num_nonfinite_steps, 1);
  EXPECT_NEAR(x[0], std::exp(-1), 1e-3);
  std::vector<double> y = {-1};
  Problem guarded;
  guarded.add_residual(sqrt(guarded.add_parameters(y)[0]) - 0.5);
  options.domain = DomainPolicy::guarded;
  options.domain_epsilon = 1e-4;
  const Summary summary = solve(guarded, options);
  // Below epsilon the root is constant: cost ½ (0.01 - 0.5)², derivative 0.
  EXPECT_NEAR(summary.initial_cost, 0.5 * 0.49 * 0.49, 1e-6);
  EXPECT_EQ(summary.termination, Termination::CONVERGENCE);
}

}  // namespace topograd::test
