// Options of a problem's solve.
#include "solve_options.hpp"

namespace topograd::command {

SolverOptions options_of(const SolverArguments& arguments, const NamedProblem& named) {
  if (named.file() != nullptr) return to_options(arguments, named.file()->options);
  SolverOptions options = to_options(arguments);
  if (!arguments.max_iterations) options.max_iterations = 100;
  return options;
}

}  // namespace topograd::command
