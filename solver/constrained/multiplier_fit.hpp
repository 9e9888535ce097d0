// Multipliers of active inequalities that balance the gradient at a given point.
#pragma once

#include "constrained_run.hpp"

#include <span>
#include <vector>

namespace topograd {

/// Changes the multipliers λ of some inequalities so that g = ∇f − Jcᵀλ is as short as it can be,
/// over what is free and not held by a bound, and g with them.
///
/// Near the end of a barrier c is so small that its rounding is a visible share of it, and of λ =
/// μ / c. The least squares fit is of the same order and not touched by that rounding.
///
///   rows      of the constraints, ascending
///   gradient  g of the present multipliers; in/out
///
/// Cost: the constraints' Jacobian, and conjugate gradients on the
/// normal equations of its active rows.
void fit_multipliers(ConstrainedRun& run, std::span<const std::size_t> rows,
                     std::vector<double>& gradient);

}  // namespace topograd
