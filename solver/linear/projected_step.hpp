// Steps within bounds: projected trial points, shortened until the cost decreases enough.
#pragma once

#include "step_solver.hpp"

#include <cstdint>
#include <functional>
#include <optional>

namespace topograd {

/// Finds how much of a projected step to take: the largest tried part whose cost meets Armijo's
/// condition (Nocedal & Wright, eq. 3.4), as in Ceres' trust region minimiser; after 20 failed
/// trials the whole step.
class ProjectedSearch {
 public:
  ProjectedSearch() = default;
  ///   cost  at the point
  ///   full  report of the whole step, with its slope
  ProjectedSearch(double cost, const runtime::StepReport& full);

  /// Length at which to try next, after a trial with this cost; empty: that trial is the step.
  std::optional<double> next(double trial_cost);
  /// Of the last trial.
  double length() const { return length_; }

 private:
  double cost_ = 0, slope_ = 0, least_ = 0, length_ = 1;
  int trials_ = 0;
  bool whole_ = false;  // no part was good
};

/// Shortens a projected step as ProjectedSearch says.
///
///   cost  at the point
///   full  report of the whole step, with its slope
///   move  moves the trial point to the projection of this part of the step; sets step_norm and
///         trial_cost
runtime::StepReport search_projected(double cost, const runtime::StepReport& full,
                                     const std::function<runtime::StepReport(double length)>& move);

/// A step of the engine, which projects it, for a model with bounds.
///
///   cost  at the point
runtime::StepReport try_projected(runtime::Engine& engine, const runtime::StepRequest& request,
                                  double cost);

/// Conjugate gradients on the engine's device, for a model with bounds.
class ProjectedPcgStep final : public StepSolver {
 public:
  LinearSolver kind() const override { return LinearSolver::pcg; }
  std::uint64_t most_undamped(const runtime::Engine&) const override { return 0; }
  void linearized(runtime::Engine&, runtime::PointReport& point) override { cost_ = point.cost; }
  runtime::StepReport try_step(runtime::Engine& engine,
                               const runtime::StepRequest& request) override;
  /// False: the projection has already found the length.
  bool can_rescale(runtime::Engine&) const override { return false; }

 private:
  double cost_ = 0;
};

}  // namespace topograd
