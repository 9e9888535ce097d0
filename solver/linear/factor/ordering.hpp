// SolverOptions::linear_solver_ordering as flags of blocks.
#pragma once

#include "../../options.hpp"
#include "elimination.hpp"

#include "../../../frontend/problem.hpp"

namespace topograd {

/// The blocks of the lowest group, or none if there is only one group.
///
/// Throws Error{InvalidArgument} for a negative group, Error{WrongProblem} for arrays of another
/// problem, and Problem's error for a block that does not exist.
EliminationHint elimination_hint(const Problem& problem, const SolverOptions& options);

}  // namespace topograd
