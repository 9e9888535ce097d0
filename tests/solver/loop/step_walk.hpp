// Comparison of a solve with one whose steps are made on the host, step by step.
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
  std::vector<Parameters> arrays;  ///< its arrays, if a test needs them
};

/// The options with tight tolerances, and exact conjugate gradients or the device's factor, if that
/// is asked for.
SolverOptions exact_steps(SolverOptions options);

/// Solves with exact_steps() on the engine, which must make them, and on the interpreter with steps
/// by sparse Cholesky on the host in f64. The minima agree, and in f64 also the steps,
/// until rounding decides.
///
///   options     backend, precision and factor
///   why         reason for the host's steps: "bounds"
///   most_steps  if fewer: both stop there without convergence
void expect_same_walk(const std::function<std::unique_ptr<OwnedProblem>()>& make,
                      const SolverOptions& options, const std::string& why, int most_steps = 200);

}  // namespace topograd::test
