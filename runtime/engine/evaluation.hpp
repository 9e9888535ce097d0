// Kinds of evaluations, and the destinations of their values.
#pragma once

#include <span>
#include <string_view>

namespace topograd::runtime {

enum class KernelKind {
  residual,
  cost,
  gradient,
  jacobian,
  jtjp,
  blocks,
  jvp,
  vjp,
  hvp,
  hessian,
  cost_gradient,  ///< both from one sweep
  values          ///< residuals, cost and gradient from one sweep
};
inline constexpr int kKernelKinds = static_cast<int>(KernelKind::values) + 1;
std::string_view name(KernelKind kind);

/// The kind that is timed and prepared for an evaluation of these values.
KernelKind kind_of_values(bool cost, bool residuals, bool gradient);

/// Destinations of an evaluation; null or empty ones are not computed.
struct Values {
  double* cost = nullptr;
  std::span<double> residuals;  ///< model.rows
  std::span<double> gradient;   ///< model.scalars
  KernelKind kind() const {
    return kind_of_values(cost != nullptr, !residuals.empty(), !gradient.empty());
  }
  /// True for the gradient and at least one other value.
  bool several() const { return !gradient.empty() && (cost != nullptr || !residuals.empty()); }
};

}  // namespace topograd::runtime
