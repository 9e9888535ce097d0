// Tolerance of the linear system of each step.
#pragma once

#include "../options.hpp"

namespace topograd::ir {
class StateRecord;
}

namespace topograd {

/// The tolerance of the linear solver, from the rate at which the gradient falls: far from the
/// minimum an exact step is wasted.
///
/// The first system is solved exactly. Starts are often smooth (a mesh at rest), and one exact step
/// keeps them so; a loose one leaves neighbours that contradict each other, from which many more
/// steps are taken or rejected. A deformation of the Utah teapot took 144 steps from a tolerance of
/// 0.1 and 13 from 1e-5, where exact steps take 6.
///
/// Source: Eisenstat, Walker, Choosing the forcing terms in an inexact Newton method, SIAM J. Sci.
/// Comput. 17 (1996), choice 2 with α = 2, γ of the row of solver/options.def, and its safeguard.
class Forcing {
 public:
  ///   sequence  not automatic
  ///   tightest  lower bound of the tolerance, in (0, 1); always used with `constant`
  Forcing(ForcingSequence sequence, double tightest);

  /// Call at a new point.
  ///
  ///   gradient_norm  ‖Jᵀr‖ there
  void moved(double gradient_norm);
  /// Call after a rejected step: the next one is solved more exactly.
  void refused();
  /// Call if the last step gained so little that the solve could end. Returns true if it was solved
  /// exactly enough for this conclusion; if not, later steps are solved ten times more exactly than
  /// it.
  bool trusts_last();
  void transfer(ir::StateRecord& record);
  /// ‖residual of the normal equations‖ / ‖gradient‖ at which to stop.
  double tolerance() const { return tolerance_; }
  /// True if the tolerance follows the gradient.
  bool is_loose() const { return gamma_ > 0; }

 private:
  double gamma_;
  double tightest_;
  double tolerance_;
  double loosest_;
  double last_norm_ = 0;
};

}  // namespace topograd
