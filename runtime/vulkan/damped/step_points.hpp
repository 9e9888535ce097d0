// Linearising at the current point and moving to trial points, on a device.
#pragma once

#include "../../engine/damped_steps.hpp"
#include "../linear/normal_products.hpp"
#include "../steps/accepted_points.hpp"
#include "../steps/point_moves.hpp"

namespace topograd::runtime::vulkan {

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

}  // namespace topograd::runtime::vulkan
