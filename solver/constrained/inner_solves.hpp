// The minimisations between two changes of multipliers, penalties or barriers.
#pragma once

#include "../../runtime/engine/engine.hpp"

#include <span>

namespace topograd {

/// Minimisations on one engine, each from where the last one ended.
class InnerSolves {
 public:
  virtual ~InnerSolves() = default;
  /// An engine for this kind of evaluation at the best point, with the present numbers of the
  /// problem. Until the next call.
  virtual runtime::Engine& engine(runtime::Pass pass) = 0;
  virtual std::span<const double> point() const = 0;
  /// Makes x the point from which the next minimisation starts.
  virtual void move(std::span<const double> x) = 0;
  /// Minimises the cost until max |gradient| <= `bound`, or until another rule ends it; history,
  /// counts, termination and message go to the summary.
  ///
  ///   anew  starts with the trust region of the options, not with that of the last minimisation
  virtual void minimize(double bound, bool anew) = 0;
};

}  // namespace topograd
