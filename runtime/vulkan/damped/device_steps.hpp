// Damped least-squares steps on a device.
#pragma once

#include "../../engine/step_gradient.hpp"
#include "../evaluations/kernel_variants.hpp"
#include "damped_system.hpp"
#include "step_points.hpp"
#include "taken_steps.hpp"

#include <cstdint>
#include <span>

namespace topograd::runtime::vulkan {

/// The loop of linearisation, solution and trial point. The system may be that of another engine of
/// the device, in lower precision: point, matrix and gradient go there, the step comes back.
class DeviceSteps final : public DampedSteps, public StepLengths, public StepGradient, Part {
 public:
  /// All of these outlive it.
  DeviceSteps(const Part& part, TermSums& sums, NormalProducts& products, PointMoves& moves,
              AcceptedPoints& accepted, KernelVariants& variants);

  void begin_solve() override;
  void transfer(ir::StateRecord& record) override;
  PointReport linearize() override;
  StepReport try_step(const StepRequest& request) override;
  StepReport try_step(std::span<const double> delta) override;
  void trial_point(std::span<double> x) override { problem_.read_point(v_.trial, x); }
  void accept() override;
  PreconditionerUse preconditioner() const override { return system_.preconditioner().use(); }
  NormalMatrixUse normal_matrix() const override { return products_.use(); }
  StepReport rescale_step(double length) override;
  void step_gradient(std::span<double> g) override { problem_.read(v_.gradient, g); }

  DampedSystem& system() { return system_; }
  /// As Guards::trial_cost().
  double trial_cost();

  /// Makes kernels and lists, once.
  void prepare();
  /// Goes on making kernels without waiting; true once they are there.
  bool prepare_ahead();
  /// A linearisation is recorded.
  bool prepared() const { return points_.prepared(); }
  /// Kernels of record_plain().
  void need_plain(Needs& needs);
  /// For timings: linearising, so many iterations without preconditioner, and the trial point.
  void record_plain(CommandList& list, int iterations);

  /// Leaves the system to these steps, as NarrowSolve::solve_by_narrow(); null: solves it itself.
  bool solve_by(DeviceSteps* narrow);

 private:
  using Scalar = codegen::Scalar;
  using Lists = DampedSystem::Lists;

  /// Buffers of steps; their kernels are not yet needed.
  void begin();
  void need(Needs& needs);
  void rehearse(CommandList& list);
  StepReport report_trial(const AcceptedPoints::Scalars& values) const;

  // Functions for the system in lower precision.
  void prepare_narrow();
  /// Brings point, matrix and gradient there, where they are not.
  void queue_narrow(Lists& lists);
  void need_conversions(Needs& needs);
  /// Records a conversion by kernels of these steps, whose numbers are narrow.
  template <class Kernel>
  void record_converted(CommandList& list, const Buffer& from, const Buffer& to);
  void record_narrow_point(CommandList& list);
  void record_narrow_gradient(CommandList& list);
  void record_narrow_step(CommandList& list);

  NormalProducts& products_;
  PointMoves& moves_;
  AcceptedPoints& accepted_;
  KernelVariants& variants_;
  DampedSystem system_;
  StepPoints points_;
  TakenSteps taken_;
  Derived<Preparation> preparation_{recorder_.structure};
  double step_norm_ = 0;  // last step at its full length

  DeviceSteps* narrow_ = nullptr;
  bool narrow_follows_ = false;  // its matrix is that of the current point
  struct NarrowLists {
    Recorded point, gradient, step;  // the first two go there, the third comes back
  };
  Derived<NarrowLists> narrow_lists_{recorder_.columns};
  // Used if these steps are the narrow ones of another engine.
  Derived<Recorded> matrix_{recorder_.kernels};
};

}  // namespace topograd::runtime::vulkan
