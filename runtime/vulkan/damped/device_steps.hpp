// Damped least-squares steps on a device.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "../evaluations/kernel_variants.hpp"
#include "../steps/point_moves.hpp"
#include "damped_system.hpp"
#include "taken_steps.hpp"

namespace topograd::runtime::vulkan {

/// Copies between vectors of one model in two precisions on a device.
class NarrowCopies : Part {
 public:
  /// All of these outlive it.
  NarrowCopies(const Part& wide, const PointMoves& moves, const Part& narrow)
      : Part(wide), moves_(moves), narrow_(narrow) {}

  /// Records all copies, to declare them.
  void record_all(CommandList& list);
  /// Makes kernels and lists, once.
  void prepare();
  const Recorded& point() const { return lists_->point; }        ///< to the system
  const Recorded& gradient() const { return lists_->gradient; }  ///< to the system
  /// From the system: all that the trial point and its report read, and how the solver stands.
  const Recorded& step() const { return lists_->step; }

 private:
  template <class Kernel>
  void record(CommandList& list, const Buffer& from, const Buffer& to);
  void record_point(CommandList& list);
  void record_gradient(CommandList& list);
  void record_step(CommandList& list);

  const PointMoves& moves_;
  const Part narrow_;
  struct Lists {
    Recorded point, gradient, step;
  };
  Derived<Lists> lists_{recorder_.columns};
};

/// The loop of linearisation, solution and trial point. The system may be that of narrow
/// steps, of the same model on the same device in f32: point and gradient go there, the step comes
/// back.
class DeviceSteps final : public DampedSteps, public StepLengths, Part {
 public:
  /// All of these outlive it.
  ///
  ///   narrow  solves its systems; null: it does so itself
  DeviceSteps(const Part& part, TermSums& sums, NormalProducts& products, PointMoves& moves,
              AcceptedPoints& accepted, KernelVariants& variants, DeviceSteps* narrow);

  void begin_solve() override;
  void transfer(ir::StateRecord& record) override;
  PointReport linearize() override;
  StepReport try_step(const StepRequest& request) override;
  StepReport try_step(std::span<const double> delta) override;
  void trial_point(std::span<double> x) override { problem_.read_point(v_.trial, x); }
  void accept() override;
  PreconditionerUse preconditioner() const override {
    return solver().system_.preconditioner().use();
  }
  NormalMatrixUse normal_matrix() const override { return solver().products_.use(); }
  StepReport rescale_step(double length) override;

  DampedSystem& system() { return system_; }
  DeviceElimination& elimination() { return solver().system_.elimination(); }
  /// As Guards::trial_cost().
  double trial_cost();

  /// Makes kernels and lists, once.
  void prepare();
  /// Goes on making kernels without waiting; true once they are there.
  bool prepare_ahead();
  /// A linearisation is recorded.
  bool prepared() const { return points_.prepared(); }
  /// For timings: linearising, so many iterations without preconditioner, and the trial point.
  void record_plain(CommandList& list, int iterations);

 private:
  using Scalar = codegen::Scalar;
  using Lists = DampedSystem::Lists;

  /// Buffers of steps; their kernels are not yet needed.
  void begin();
  /// Records all of a step's lists, to declare them.
  void record_all(CommandList& list);
  void rehearse(CommandList& list);
  StepReport report_trial(const AcceptedPoints::Scalars& values) const;

  DeviceSteps& solver() { return narrow_ != nullptr ? *narrow_ : *this; }
  const DeviceSteps& solver() const { return narrow_ != nullptr ? *narrow_ : *this; }

  /// Brings point, matrix and gradient to the system in f32, where they are not.
  void queue_narrow(Lists& lists);

  NormalProducts& products_;
  PointMoves& moves_;
  AcceptedPoints& accepted_;
  KernelVariants& variants_;
  DampedSystem system_;
  StepPoints points_;
  TakenSteps taken_;
  Derived<Preparation> preparation_{recorder_.structure};
  double step_norm_ = 0;  // last step at its full length

  DeviceSteps* const narrow_;
  std::optional<NarrowCopies> copies_;  // with narrow_
  bool narrow_follows_ = false;         // its matrix is that of the current point
  // Used if these steps are narrow ones.
  Derived<Recorded> matrix_{recorder_.kernels};
};

}  // namespace topograd::runtime::vulkan
