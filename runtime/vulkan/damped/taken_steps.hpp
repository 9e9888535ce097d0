// Steps that the device takes itself: length, acceptance and the next linearisation in the
// submission of the solve.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "../../engine/damped_steps.hpp"
#include "../linear/normal_products.hpp"
#include "../recording/vector_ops.hpp"
#include "../steps/point_moves.hpp"

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

}  // namespace topograd::runtime::vulkan
