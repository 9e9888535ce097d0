// Internal: the kernels of a solve, made before it.
#pragma once

#include "../linear/step_solver.hpp"
#include "../model/model.hpp"
#include "../options.hpp"
#include "../session/engines.hpp"

#include <span>

namespace topograd {

/// Makes all kernels that a solve will need, and waits for them; evaluates nothing.
///
///   steps  null for methods for scalar objectives
///   x      the engine's point
///
/// Throws what making them throws, and Error{Timeout} after ten minutes.
void make_kernels(Engines& engines, const ProblemModel& model, const SolverOptions& options,
                  const StepSolver* steps, std::span<const double> x);

}  // namespace topograd
