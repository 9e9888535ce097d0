// Numbers on their way between steps and their linear system in f32.
#pragma once

#include "../steps/point_moves.hpp"

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

}  // namespace topograd::runtime::vulkan
