// Damped least-squares steps on a device, also those that the device takes itself.
#pragma once

#include "../../engine/damped_steps.hpp"
#include "../evaluations/kernel_variants.hpp"
#include "../linear/normal_products.hpp"
#include "../recording/vector_ops.hpp"
#include "../steps/point_moves.hpp"
#include "damped_system.hpp"

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

namespace topograd::runtime::vulkan {

/// One section of one list. Its dispatches are indirect; where it stays closed they have no
/// workgroups, and take a device some microseconds each.
class ConditionalSection {
 public:
  using Section = std::function<void(CommandList&)>;

  /// Records the kernel that opens it or not, after a barrier: one that writes `opened`, with what
  /// `section` dispatches as `workgroups`. `section` has nothing but dispatches and barriers.
  template <class Kernel>
  void record_opening(Context& context, VectorOps& vectors, CommandList& list, Kernel kernel,
                      const Section& section) {
    kernel.push.count = count_workgroups(context, list, section);
    kernel.buffers = {.workgroups = all_, .opened = open_};
    list.barrier();
    vectors.record(list, kernel);
  }
  /// Records the section, the same once more.
  void record_section(CommandList& list, const Section& section);

 private:
  /// Makes the buffers; returns their words.
  std::uint32_t count_workgroups(Context& context, CommandList& list, const Section& section);

  Buffer all_, open_;  // u32, three for each dispatch: all of its workgroups; those, or none
};

/// Records linearisations and trial points, and makes reports of them.
class StepPoints : Part {
 public:
  using Scalars = AcceptedPoints::Scalars;

  /// All of these outlive it.
  StepPoints(const Part& part, TermSums& sums, NormalProducts& products, PointMoves& moves)
      : Part(part), sums_(sums), products_(products), moves_(moves) {}

  /// Gradient, cost, norms, and what products and preconditioner are made from.
  void record_linearization(CommandList& list);
  /// The last two alone, in the coordinates of steps.
  void record_matrix(CommandList& list);
  // These two also record reports for the host.
  void record_linearize(CommandList& list);
  /// trial = x + length δ, and the cost there.
  void record_trial(CommandList& list, codegen::Scalar length);

  /// Records all lists, to declare them.
  void record_all(CommandList& list) {
    record_linearize(list);
    record_trial(list, codegen::Scalar::one);
    record_trial(list, codegen::Scalar::user);
  }

  /// Makes lists, once: their kernels are there.
  void prepare();
  bool prepared() const { return static_cast<bool>(linearize_->list); }
  const Recorded& linearize() const { return *linearize_; }
  const Recorded& trial() const { return trials_->full; }
  const Recorded& rescaled() const { return trials_->rescaled; }  ///< by Scalar::user

  /// The last move was this share of the step.
  void moved(double length) { moved_length_ = length; }
  PointReport report(const Scalars& values) const;

 private:
  TermSums& sums_;
  NormalProducts& products_;
  PointMoves& moves_;
  struct Trials {
    Recorded full, rescaled;
  };
  Derived<Recorded> linearize_{recorder_.kernels};
  Derived<Trials> trials_{recorder_.columns};
  double moved_length_ = 1;
};

class TakenSteps : Part {
 public:
  /// All of these outlive it.
  TakenSteps(const Part& part, PointMoves& moves, AcceptedPoints& accepted, StepPoints& points)
      : Part(part), moves_(moves), accepted_(accepted), points_(points) {}

  /// Records all that the device decides and does, unless guards leave that to the host.
  void record(CommandList& list);
  /// Runs the kernels of it once; x stays where it is.
  void rehearse(CommandList& list);
  /// Before each step. False: it is left to the caller.
  bool prepare(const std::optional<StepRule>& rule);
  /// Queues the decision after a solve, with a copy of x if one is due.
  void queue(std::vector<const Recorded*>& lists);
  /// Takes the verdict from the scalars, after they were read.
  void read();
  /// For the report of a step at its full length.
  void report(StepReport& report) const;

 private:
  void record_move(CommandList& list);

  PointMoves& moves_;
  AcceptedPoints& accepted_;
  StepPoints& points_;
  struct Lists {
    ConditionalSection rescaling, returning, moving;  // returning: on manifolds
    Recorded take, read;
    std::array<Recorded, 2> stage;  // copies the point to host memory
  };
  Derived<Lists> lists_{recorder_.kernels};
  bool staged_ = false;  // with the last queue()
};

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
