// SolverOptions::linear_solver_ordering as flags of blocks.
#pragma once

#include "../options.hpp"
#include "elimination.hpp"

#include "../../frontend/problem.hpp"

namespace topograd {

/// The blocks of the lowest group; nothing where there is no second group to come after it.
///
/// Throws Error{InvalidArgument} for a negative group, Error{WrongProblem} for arrays of another
/// problem, and what Problem says of a block that is not there.
EliminationHint elimination_hint(const Problem& problem, const SolverOptions& options);

}  // namespace topograd
