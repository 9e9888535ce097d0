// The linear system of damped steps on a device, and its solution.
#pragma once

#include "../../engine/damped_steps.hpp"
#include "../steps/accepted_points.hpp"
#include "device_elimination.hpp"
#include "device_preconditioner.hpp"
#include "full_system.hpp"
#include "submission_size.hpp"

#include <functional>
#include <memory>
#include <span>
#include <vector>

namespace topograd::runtime::vulkan {

/// (JᵀJ + λD) δ = −Jᵀr, by conjugate gradients: preconditioned by blocks or by two levels, or on
/// the Schur complement where blocks are eliminated.
class DampedSystem final : public LastStep, Part {
 public:
  using Lists = std::vector<const Recorded*>;
  /// The step that a solution is for.
  struct Step {
    std::function<std::vector<double>()> point;  ///< starting point, in the device's order
    /// Queues the trial point behind iterations, submits all and returns what comes back, state and
    /// iterations of the solver among it.
    std::function<const AcceptedPoints::Scalars&(Lists&)> run;
  };

  /// All of these outlive it.
  DampedSystem(const Part& part, NormalProducts& products, PointMoves& moves);

  void last_step(std::span<double> delta) override { problem_.read(v_.step, delta); }

  DeviceElimination& elimination() { return elimination_; }
  DevicePreconditioner& preconditioner() { return *preconditioner_; }
  const DevicePreconditioner& preconditioner() const { return *preconditioner_; }

  /// As DampedSteps::transfer().
  void transfer(ir::StateRecord& record);
  /// True if columns have the scaling of this solve; if not, the next solution sets it.
  bool& is_scaled() { return is_scaled_; }
  void record_scale(CommandList& list, const StepRequest& request);
  ConjugateGradients gradients(const ConjugateGradients::Preconditioning& by = {}) {
    return {*v_.ops, full_, by};
  }

  /// Makes lists, once: kernels of gradients() are there.
  void prepare();
  /// Queues the solution behind `lists`. Returns the iterations.
  int solve(const StepRequest& request, const Step& step, Lists lists);

 private:
  SolveLists make_lists(const char* start, const char* iterations, ConjugateGradients by);
  void prepare_corrected();
  int iterate(int most, const SolveLists* eliminates, const Step& step, Lists lists);
  void queue_iterations(const Recorded& iterations, int want, int& queued, Lists& lists);

  FullSystem full_;
  std::unique_ptr<DevicePreconditioner> preconditioner_;
  DeviceElimination elimination_;
  Derived<SolveLists> by_blocks_{recorder_.kernels}, corrected_{preconditioner_->buffers()};
  bool is_scaled_ = false;
  int expected_iterations_ = 16;
  SubmissionSize submission_size_;
};

}  // namespace topograd::runtime::vulkan
