// Which method a problem gets and which it cannot have, and the loops of those for constraints.
#pragma once

#include <span>

#include "../../frontend/problem.hpp"
#include "../constrained/constrained_run.hpp"
#include "../model/model.hpp"
#include "../options.hpp"
#include "../summary.hpp"

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

/// Options of the minimisations that a method for constraints makes: their method, and tolerances
/// that leave the end to the gradient. Throws Error{Unsupported} for what the method does not know,
/// such as checkpoints.
SolverOptions inner_options(SolverOptions options, const Problem& problem);

/// Runs the outer loop of a method for constraints; fills in costs, termination, message and
/// Summary::constrained.
///
///   model  has constraint_terms(method)
void run_constrained(Method method, Problem& problem, const ProblemModel& model,
                     const SolverOptions& options, Summary& summary, InnerSolves& inner);

}  // namespace topograd
