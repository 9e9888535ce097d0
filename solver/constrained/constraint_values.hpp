// Constraints as the user wrote them: values, derivatives, fitted multipliers, and by label.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "../../runtime/engine/engine.hpp"
#include "../constraints.hpp"
#include "../model/model.hpp"
#include "constrained_run.hpp"

namespace topograd {

/// c of all rows of constraints, where the engine's kernels run, in their precision.
///
///   first_row  of constraints, in the model
///   x          the point
///
/// Cost: a pass over the constraints, and a readback of their values.
std::vector<double> constraint_values(const ProblemModel& model, const runtime::Engine& engine,
                                      std::uint64_t first_row, std::span<const double> x);

/// ∂c of the constraints of one term: [(instance * outputs + output) * slots + slot].
std::vector<double> constraint_jacobian(const ProblemModel& model, const runtime::Engine& engine,
                                        std::size_t term, std::span<const double> x);

/// One row of the constraints' Jacobian.
struct ConstraintRow {
  const ir::Batch& batch;
  std::size_t instance = 0;             ///< in the batch
  std::size_t row = 0;                  ///< of the constraints
  std::span<const double> derivatives;  ///< by slot
};

/// Calls f for every row, at the present point.
///
/// Cost: a pass over the constraints' Jacobian.
void for_each_constraint_row(ConstrainedRun& run,
                             const std::function<void(const ConstraintRow&)>& f);

/// Number of rows of each instance of a term of constraints.
std::size_t constraint_outputs(const ProblemModel& model, std::size_t term);

/// Rows whose multipliers are fitted.
struct FittedRows {
  std::span<const std::size_t> rows;  ///< of the constraints, ascending
  std::span<const double> units;      ///< by number in `rows`: of λ, > 0
  double kept = 0;  ///< the share of its λ that an inequality keeps at least, in [0, 1)
};

/// Changes the multipliers λ of some rows so that g = ∇f − Jcᵀλ is as short as it can be, over what
/// is free and not held by a bound, and g with them. Of all such λ those are taken whose change is
/// smallest in their units.
///
/// Near the end of a barrier c is so small that its rounding is a visible share of it, and of λ =
/// μ / c; and λ = μ (s − c) of a penalty has the rounding of x times μ ‖∇c‖. The least squares fit
/// is of the same order and not touched by that rounding.
///
///   gradient  g of the present multipliers; in/out
///
/// Cost: the constraints' Jacobian, and a sparse factor of J Jᵀ of the rows; with very many entries
/// conjugate gradients instead.
void fit_multipliers(ConstrainedRun& run, const FittedRows& of, std::vector<double>& gradient);

/// fit_multipliers() of these rows in units of d, where that lowers max |gradient| / unit: λ of a
/// penalty has the rounding of x times μ ‖d ∇c‖². Measures the run's stationarity again.
///
///   gradient  of the Lagrangian, of which stationarity is that
void balance_multipliers(ConstrainedRun& run, std::span<const std::size_t> rows,
                         std::vector<double> gradient);

/// The violation at the best point along the step that meets linearised constraints as well as it
/// can, as a share of that at the run's point, in units of `scale`. Gradients of the violation are
/// small far from its minimum, too, where gradients of rows are nearly dependent.
///
/// 1 for problems with manifolds.
///
/// Cost: the constraints' Jacobian, a sparse least squares problem, and a few evaluations of rows.
double violation_left(ConstrainedRun& run);

/// "constraint "gap" #3": label and index in its batch.
///
///   row  of the model
std::string constraint_name(const Problem& problem, const ProblemModel& model, std::uint64_t row);

/// The end of a constrained solve.
struct ConstrainedEnd {
  const Problem& problem;
  const ProblemModel& model;
  const runtime::Engine& engine;
  std::span<const double> point;
  std::uint64_t first_row = 0;
  const std::vector<bool>& fixed;  ///< by row of the constraints, like the next three
  const std::vector<bool>& outside;
  std::span<const double> multipliers;
  std::span<const double> violation;
  std::span<const double> tolerance;
  bool infeasible = false;  ///< no solution was found, whatever the limits
};

/// The most rows of active constraints that are examined for dependence (a dense QR).
inline constexpr std::size_t kMostExaminedRows = 300;

/// Constraints by label and kind, in the order of adding.
std::vector<ConstraintSummary> summarise(const ConstrainedEnd& end);

}  // namespace topograd
