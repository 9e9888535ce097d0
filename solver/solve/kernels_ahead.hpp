// Internal: the kernels of a solve, made before it.
#pragma once

#include "../../runtime/engine/engine.hpp"
#include "../model/model.hpp"
#include "../options.hpp"

#include <span>

namespace topograd {

/// Makes all kernels that a solve will ask the engine for, and waits for them; evaluates nothing.
///
///   x           the engine's point
///   host_steps  the linear systems are solved on the host, which reads residuals and Jacobians
///
/// Throws what making them throws, and Error{Timeout} after ten minutes.
void make_kernels(runtime::Engine& engine, const ProblemModel& model, const SolverOptions& options,
                  std::span<const double> x, bool host_steps);

}  // namespace topograd
