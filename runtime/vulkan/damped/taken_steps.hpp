// Steps that the device takes itself: length, acceptance and the next linearisation in the
// submission of the solve.
#pragma once

#include "../recording/conditional_section.hpp"
#include "step_points.hpp"

#include <array>
#include <optional>
#include <vector>

namespace topograd::runtime::vulkan {

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
