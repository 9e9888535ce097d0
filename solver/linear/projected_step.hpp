// Steps within bounds: trial points projected on the box, as short as the cost there asks for.
#pragma once

#include "step_solver.hpp"

#include <functional>

namespace topograd {

/// Shortens a projected step until the cost there meets Armijo's condition (Nocedal & Wright, eq.
/// 3.4), as Ceres' trust region minimiser does; after 20 trials that do not, the whole step it is.
///
///   cost  at the point
///   full  of the whole step, with its slope
///   move  moves the trial point to the projection of so much of the step; step_norm and trial_cost
///         are set
runtime::StepReport search_projected(double cost, const runtime::StepReport& full,
                                     const std::function<runtime::StepReport(double length)>& move);

/// Conjugate gradients where the data are, on an engine whose model has bounds.
class ProjectedPcgStep final : public StepSolver {
 public:
  LinearSolver kind() const override { return LinearSolver::pcg; }
  void linearized(runtime::Engine&, runtime::PointReport& point) override { cost_ = point.cost; }
  runtime::StepReport try_step(runtime::Engine& engine,
                               const runtime::StepRequest& request) override;
  /// The projection has found the length.
  bool can_rescale(runtime::Engine&) const override { return false; }

 private:
  double cost_ = 0;
};

}  // namespace topograd
