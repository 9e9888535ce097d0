// Which method a problem gets, and which it cannot have.
#pragma once

#include "../../frontend/problem.hpp"
#include "../options.hpp"

namespace topograd {

/// The choice of Method::automatic: least squares, unless there are constraints or energies.
Method chosen_method(const Problem& problem);

/// Throws Error{Unsupported} for a method that does not know what the problem has: energies,
/// constraints, or (for second derivatives) residuals on the host.
///
///   constrained  the method is that of augmented_lagrangian's minimisations
void check_method(const Problem& problem, Method method, bool constrained);

}  // namespace topograd
