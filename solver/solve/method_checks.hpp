// Which method a problem gets, and which it cannot have.
#pragma once

#include "../../frontend/problem.hpp"
#include "../options.hpp"

#include <span>

namespace topograd {

/// The choice of Method::automatic: least squares, unless there are constraints or energies.
Method chosen_method(const Problem& problem);

/// Throws Error{Unsupported} for a method that does not know what the problem has: energies,
/// constraints, or (for second derivatives) residuals on the host.
///
///   constrained  the method is that of the minimisations of a method for constraints
void check_method(const Problem& problem, Method method, bool constrained);

/// For the methods that take any objective: L-BFGS knows manifolds, it and Newton's method bounds,
/// and no method both. Throws Error{Unsupported} for what the method does not know, and the errors
/// of TangentSpace::check_bounds().
///
///   x  (scalars) the start
void check_bounds_and_manifolds(const Problem& problem, Method method, std::span<const double> x);

}  // namespace topograd
