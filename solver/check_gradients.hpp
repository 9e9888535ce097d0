// Derivatives of a problem against differences of its values.
#pragma once

#include "../frontend/problem.hpp"
#include "options.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace topograd {

struct GradientCheckOptions {
  SolverOptions solver;  ///< where the kernels run; always in f64
  /// |given − by differences| / the larger of them from which an entry is wrong, in (0, 1). What
  /// the differences themselves may be off by is allowed on top.
  double relative_precision = 1e-6;
  /// The largest step as a share of max(|x|, 1), > 0; it is halved twice and extrapolated.
  double relative_step_size = 1e-3;
};

struct GradientCheck {
  std::uint64_t compared = 0;  ///< entries
  std::uint64_t wrong = 0;
  double maximum_relative_error = 0;  ///< of the wrong ones
  /// The first ten wrong entries: residual (label, number, row), unknown, both numbers.
  std::vector<std::string> messages;

  bool passed() const { return wrong == 0; }
};

/// Compares the Jacobian that a solve would use with central differences of the residuals at the
/// caller's values, and the gradient of the cost where there are energies: derivatives written by
/// hand (HostResidual), and kernels, are as right as the values they belong to.
///
/// In the ambient coordinates, without robust losses and without bounds; entries by constant
/// scalars, and where the differences are not finite, are not compared. A residual that moves with
/// a scalar that it does not claim to read is wrong.
///
/// Throws what Evaluator does, and Error{InvalidArgument} for options out of range. Cost: six
/// evaluations for each group of scalars that no residual shares; with energies six for each
/// scalar.
/// Source: Ridders, Accurate computation of F'(x) and F'(x) F''(x), Adv. Eng. Softw. 4, 1982.
GradientCheck check_gradients(Problem& problem, const GradientCheckOptions& options = {});

}  // namespace topograd
