// Escape from points where the gradient vanishes but the cost decreases on both sides.
#pragma once

#include "../options.hpp"
#include "../summary.hpp"
#include "objective.hpp"

#include <span>

namespace topograd {

/// After convergence, evaluates both sides of x along one seeded direction, at 10⁻³ of the root
/// mean square of x. If the cost decreases on both sides by more than rounding and the function
/// tolerance, x is a saddle or a concave kink and moves to the better side, as a step of the
/// history. Returns true if it has moved and nothing stops the solve: minimise again from there.
///
/// Does nothing after options.max_escapes escapes, or if operands outside their domains end a
/// solve.
///
/// Source: Jin et al., How to Escape Saddle Points Efficiently (2017), for the perturbation.
bool escape(const Objective& objective, std::span<double> x, const SolverOptions& options,
            Summary& summary);

}  // namespace topograd
