// Second derivatives at the end of a descent for a sum of squares of few unknowns.
#pragma once

#include "../model/exact_model.hpp"
#include "../options.hpp"
#include "../session/engines.hpp"
#include "../summary.hpp"
#include "row_model.hpp"

#include <optional>
#include <span>

namespace topograd {

/// Asks the exact Hessian where neither the gradient nor the linear model of the residuals says
/// whether the end of a descent is a minimum.
class ExactEnd {
 public:
  /// All outlive it.
  ExactEnd(Engines& engines, const ProblemModel& problem, RowModel& rows,
           const SolverOptions& options)
      : engines_(engines), problem_(problem), rows_(rows), options_(options) {}

  /// The linear model promises what the cost does not follow. False where second derivatives
  /// confirm a minimum, where they are not known, where residuals may have corners, and where their
  /// rounding hides what is promised.
  ///
  ///   promised  by the linear model
  ///   least     that may be left to gain
  bool denies(std::span<const double> x, const Summary& summary, double promised, double least);
  /// A damped step of the exact model from x that gains more than `least`.
  std::optional<ExactStep> step(std::span<const double> x, const Summary& summary, double least);
  /// A point of lower cost beside x, if a column of the Jacobian has vanished there, or depends on
  /// others: where an unknown is at the zero of a square or at a kink, and where two terms are the
  /// same, the gradient says nothing about both sides.
  ///
  ///   start  of the solve
  std::optional<ExactStep> leave_saddle(std::span<const double> x, std::span<const double> start,
                                        const Summary& summary, double least);

 private:
  bool knows(const Summary& summary);
  /// The engine is set to x.
  ColumnFacts columns_at(std::span<const double> x, double cost);

  Engines& engines_;
  const ProblemModel& problem_;
  RowModel& rows_;
  const SolverOptions& options_;
};

}  // namespace topograd
