// Options of a problem's solve.
#pragma once

#include "../arguments/solver_arguments.hpp"
#include "../input/named_problem.hpp"

#include "../../../solver/options.hpp"

namespace topograd::command {

/// The options of the problem's file, or the command's defaults for a named problem, overridden by
/// the given options. Throws Error{InvalidArgument} as to_options() does.
SolverOptions options_of(const SolverArguments& arguments, const NamedProblem& named);

}  // namespace topograd::command
