// Options of a problem's solve.
#include "solve_options.hpp"

namespace topograd::command {

SolverOptions options_of(const SolverArguments& arguments, const NamedProblem& named) {
  return to_options(arguments, named.options());
}

}  // namespace topograd::command
