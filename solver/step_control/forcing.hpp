// How exactly the linear system of each step is solved.
#pragma once

#include "../options.hpp"

namespace topograd {

/// The tolerance of the linear solver, from how fast the gradient falls: far from the minimum an
/// exact step is wasted.
///
/// Source: Eisenstat, Walker, Choosing the forcing terms in an inexact Newton method, SIAM J. Sci.
/// Comput. 17 (1996), choice 2 with γ = 0.9 and α = 2, and its safeguard.
class Forcing {
 public:
  ///   sequence  not automatic
  ///   tightest  the tolerance that is never passed below, in (0, 1); with `constant` always taken
  Forcing(ForcingSequence sequence, double tightest);

  /// There is a new point.
  ///
  ///   gradient_norm  ‖Jᵀr‖ there
  void moved(double gradient_norm);
  /// The step was refused: the next one is solved more exactly.
  void refused();
  /// The last step gained so little that the solve could end. Whether it was solved exactly enough
  /// to say so; if not, those to come are solved ten times more exactly than it.
  bool trusts_last();
  /// ‖residual of the normal equations‖ / ‖gradient‖ at which to stop.
  double tolerance() const { return tolerance_; }
  /// Systems are solved as exactly as the gradient falls.
  bool is_loose() const { return sequence_ == ForcingSequence::eisenstat_walker; }

 private:
  ForcingSequence sequence_;
  double tightest_;
  double tolerance_;
  double loosest_;
  double last_norm_ = 0;
};

}  // namespace topograd
