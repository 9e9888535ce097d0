// Leaving points where the gradient vanishes although the cost falls to both sides.
#pragma once

#include "../options.hpp"
#include "../summary.hpp"
#include "objective.hpp"

#include <span>

namespace topograd {

/// Where a minimisation has converged, looks at both sides of x along one seeded direction, 10⁻³ of
/// the root mean square of x away. A cost that falls to both sides, by more than can be told from
/// rounding and the function tolerance, says that x is no minimum but a saddle or a concave kink,
/// such as a symmetric shape whose smallest eigenvalues are double: x moves to the better side,
/// which is a step of the history. True if it has, and nothing ends the solve: minimise again from
/// there.
///
/// After options.max_escapes of them, and where operands outside of their domains end a solve, it
/// stays.
///
/// Source: Jin et al., How to Escape Saddle Points Efficiently (2017), for the perturbation.
bool escape(const Objective& objective, std::span<double> x, const SolverOptions& options,
            Summary& summary);

}  // namespace topograd
