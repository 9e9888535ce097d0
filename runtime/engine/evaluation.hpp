// Kinds of evaluations, and where their values go.
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
  cost_gradient,  ///< both by one sweep
  values          ///< residuals, cost and gradient by one sweep
};
inline constexpr int kKernelKinds = static_cast<int>(KernelKind::values) + 1;
std::string_view name(KernelKind kind);

/// What is timed and prepared for an evaluation that is asked for these.
KernelKind kind_of_values(bool cost, bool residuals, bool gradient);

/// Where an evaluation's values go; what is null or empty is not wanted.
struct Values {
  double* cost = nullptr;
  std::span<double> residuals;  ///< model.rows
  std::span<double> gradient;   ///< model.scalars
  KernelKind kind() const {
    return kind_of_values(cost != nullptr, !residuals.empty(), !gradient.empty());
  }
  /// The gradient and something else.
  bool several() const { return !gradient.empty() && (cost != nullptr || !residuals.empty()); }
};

}  // namespace topograd::runtime
