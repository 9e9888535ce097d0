// Solver::Options::check_gradients: every cost function's Jacobian against differences.
#pragma once

#include "../../../solver/options.hpp"
#include "../problem/problem_impl.hpp"
#include "solver.hpp"

#include <string>

namespace ceres::internal {

/// Looks at the start and at each accepted point, in the user's memory.
class GradientChecks {
 public:
  /// Both outlive it.
  GradientChecks(const Solver::Options& options, const ProblemImpl& problem)
      : options_(options), problem_(problem) {}

  /// A callback that stops the solve at the first residual block that is wrong, and else asks
  /// `next`, which may be empty. Cost of an iteration: Ridders' method on every residual block.
  topograd::IterationCallback Before(topograd::IterationCallback next);

  /// What is wrong with which residual block; empty if nothing was found.
  const std::string& error() const { return error_; }

 private:
  std::string Check(const ResidualBlock& residual) const;

  const Solver::Options& options_;
  const ProblemImpl& problem_;
  std::string error_;
};

}  // namespace ceres::internal
