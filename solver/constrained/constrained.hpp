// Methods for constraints: what they minimise by, and their outer loops.
#pragma once

#include "../../frontend/problem.hpp"
#include "../model/model.hpp"
#include "../options.hpp"
#include "../summary.hpp"
#include "constrained_run.hpp"

namespace topograd {

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
