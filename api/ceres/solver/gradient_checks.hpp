// Solver::Options::check_gradients: compares all Jacobians with finite differences during a solve.
#pragma once

#include "../../../solver/options.hpp"
#include "../problem/problem_impl.hpp"
#include "solver.hpp"

#include <string>

namespace ceres::internal {

/// Checks at the start and at each accepted point, in the user's memory.
class GradientChecks {
 public:
  /// Both arguments must outlive this object.
  GradientChecks(const Solver::Options& options, const ProblemImpl& problem)
      : options_(options), problem_(problem) {}

  /// A callback that stops the solve at the first wrong residual block, and otherwise calls `next`,
  /// which may be empty. Cost of an iteration: Ridders' method on every residual block.
  topograd::IterationCallback Before(topograd::IterationCallback next);

  /// The first error and its residual block; empty if none was found.
  const std::string& error() const { return error_; }

 private:
  std::string Check(const ResidualBlock& residual) const;

  const Solver::Options& options_;
  const ProblemImpl& problem_;
  std::string error_;
};

}  // namespace ceres::internal
