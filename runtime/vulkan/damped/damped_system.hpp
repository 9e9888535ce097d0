// The linear system of damped steps on a device, and its solution.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "../../engine/damped_steps.hpp"
#include "../linear/conjugate_gradients.hpp"
#include "../linear/normal_products.hpp"
#include "../steps/point_moves.hpp"
#include "device_elimination.hpp"
#include "device_preconditioner.hpp"

namespace topograd::runtime::vulkan {

/// (JᵀJ + Λ) δ = −Jᵀr, with products as NormalProducts makes them.
class FullSystem final : public DeviceSystem, Part {
 public:
  /// All of these outlive it.
  FullSystem(const Part& part, NormalProducts& products, PointMoves& moves)
      : Part(part), products_(products), moves_(moves) {}

  SystemVectors vectors() override;
  void record_begin(CommandList& list) override;
  std::uint32_t record_product(CommandList& list, const Direction& direction) override;

 private:
  std::uint32_t record_fused(CommandList& list, const Direction& direction);

  NormalProducts& products_;
  PointMoves& moves_;
};

/// Lists of iterations that one submission may take, by how long those of the last solve took:
/// a desktop's watchdog ends a submission of some seconds, and its display stands still meanwhile.
class SubmissionSize {
 public:
  /// Longest submission, in time on the device.
  static constexpr std::chrono::duration<double> kLongest = std::chrono::milliseconds(250);

  /// `lists` of them, at least one, and what was queued with them took so long.
  void measured(std::size_t lists, std::chrono::duration<double> took) {
    each_ = took / static_cast<double>(std::max<std::size_t>(lists, 1));
  }
  /// Lists that fit one submission, at least 1.
  std::size_t lists() const {
    constexpr double kMost = 1e6;  // also for a device too fast to be measured
    const double fit = each_.count() > 0 ? kLongest / each_ : kMost;
    return static_cast<std::size_t>(std::clamp(fit, 1.0, kMost));
  }

 private:
  std::chrono::duration<double> each_{kLongest / 8};  // nobody knows
};

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
  /// Conjugate gradients of a step.
  int run(const StepRequest& request, const SolveLists* eliminates, const Step& step, Lists lists);
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
