// Destinations of the values of an evaluation.
#pragma once

#include "../plan/pass.hpp"

#include <span>

namespace topograd::runtime {

/// The pass that is timed and prepared for an evaluation of these values.
Pass pass_of_values(bool cost, bool residuals, bool gradient);

/// Destinations of an evaluation; null or empty ones are not computed.
struct Values {
  double* cost = nullptr;
  std::span<double> residuals;  ///< model.rows
  std::span<double> gradient;   ///< model.scalars
  Pass pass() const {
    return pass_of_values(cost != nullptr, !residuals.empty(), !gradient.empty());
  }
  /// True for the gradient and at least one other value.
  bool several() const { return !gradient.empty() && (cost != nullptr || !residuals.empty()); }
};

}  // namespace topograd::runtime
