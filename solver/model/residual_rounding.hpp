// How much the residuals of a problem round at a point.
#pragma once

#include "../options.hpp"
#include "model.hpp"

#include <span>
#include <string>

namespace topograd {

/// Root mean squares over some of the rows: residuals in the precision of a solve against those of
/// long double. Constants within an expression count, which no derivative shows: x − 1e16 rounds by
/// 1 whatever x is.
struct ResidualRounding {
  double rounding = 0;   ///< of the residuals
  double residuals = 0;  ///< themselves
  double terms = 0;      ///< changes of the residuals with the unknowns, by their own size

  /// True if the residuals are rounding, so that no gradient and no step shows where their minimum
  /// is. Not so for a fit that is perfect, whose residuals are as nothing beside their terms, or
  /// beside what they were.
  ///
  ///   start  of the solve: the root mean square of all residuals
  bool hides(Precision precision, double start) const;
  /// True if the residuals are hardly more than rounding: a verdict about them says nothing.
  bool is_all() const;
  /// "; rounding hides the minimum: …".
  std::string text() const;
  /// Returns by how much rounding of residuals may change the cost of this many rows: by all of it,
  /// where residuals are no more than a few roundings of themselves and of the unknowns.
  double noise(double rows, Precision precision) const;
};

/// Looks at a few rows of each term, and at more of them if they round by much. Rows of opaque code
/// and those whose data are on a device do not count, nor do losses.
///
///   by_terms  `terms` is wanted also where the residuals round by little
///
/// Cost: a few dozen rows, evaluated one by one.
ResidualRounding residual_rounding(const ProblemModel& model, std::span<const double> x,
                                   Precision precision, bool by_terms = false);

}  // namespace topograd
