// Solves step by step beside a solve whose steps are made on the host.
#pragma once

#include "../../../frontend/problem.hpp"
#include "../../../solver/options.hpp"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace topograd::test {

struct OwnedProblem {
  std::vector<double> x;
  Problem problem;
  std::vector<Parameters> arrays;  ///< of it, where a test needs them
};

/// The options with tight tolerances, and conjugate gradients that solve exactly.
SolverOptions exact_steps(SolverOptions options);

/// Solves by the engine's conjugate gradients, which must make the steps themselves, and on the
/// interpreter with steps on the host by sparse Cholesky in f64: the minimum is the same, and in
/// f64 so is every step, until rounding decides.
///
///   options     backend and precision
///   why         what the host's steps are made for: "bounds"
///   most_steps  fewer: both stop there, and need not have converged
void expect_same_walk(const std::function<std::unique_ptr<OwnedProblem>()>& make,
                      const SolverOptions& options, const std::string& why, int most_steps = 200);

}  // namespace topograd::test
