// The options of a problem's solve.
#pragma once

#include "../arguments/solver_arguments.hpp"
#include "../input/named_problem.hpp"

#include "../../../solver/options.hpp"

namespace topograd::command {

/// Those of the problem's file, or the command's own for a problem with a name, and in their place
/// what was given. Throws Error{InvalidArgument} as to_options().
SolverOptions options_of(const SolverArguments& arguments, const NamedProblem& named);

}  // namespace topograd::command
