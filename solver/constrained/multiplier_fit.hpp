// Multipliers of active constraints that balance the gradient at a given point.
#pragma once

#include "constrained_run.hpp"

#include <span>
#include <vector>

namespace topograd {

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

}  // namespace topograd
