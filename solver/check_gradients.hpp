// Comparison of a problem's derivatives with differences of its values.
#pragma once

#include "../frontend/problem.hpp"
#include "options.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace topograd {

struct GradientCheckOptions {
  SolverOptions solver = {};  ///< backend of the kernels; always in f64
  /// An entry is wrong if |given − by differences| / the larger of them exceeds this, in (0, 1),
  /// plus the estimated error of the differences.
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

/// Compares the Jacobian that a solve would use, and with energies the gradient of the cost, with
/// central differences at the caller's values. It finds mistakes in hand-written derivatives
/// (HostResidual) and in kernels.
///
/// Works in the ambient coordinates, without robust losses and bounds. Entries by fixed scalars,
/// and entries whose differences are not finite, are not compared. A residual that changes with a
/// scalar that it does not claim to read is wrong.
///
/// Throws the errors of Evaluator, and Error{InvalidArgument} for options out of range. Cost: six
/// evaluations for each group of scalars that no residual shares; with energies six for each
/// scalar.
/// Source: Ridders, Accurate computation of F'(x) and F'(x) F''(x), Adv. Eng. Softw. 4, 1982.
GradientCheck check_gradients(Problem& problem, const GradientCheckOptions& options = {});

}  // namespace topograd
