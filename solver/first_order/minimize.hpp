// Methods for scalar objectives on a problem and its engine.
#pragma once

#include "../../runtime/engine/engine.hpp"
#include "../checkpoint/checkpoints.hpp"
#include "../model/model.hpp"
#include "../options.hpp"
#include "../summary.hpp"
#include "objective.hpp"

#include <span>

namespace topograd {

/// Cost and gradient of the engine's problem; derivatives by fixed scalars are 0. Both arguments
/// must outlive the result. It moves the engine's point.
Objective cost_of(runtime::Engine& engine, const runtime::Model& model);

/// Minimises the cost by options.method from x, which is always the best point, unless `elsewhere`
/// has a newer one. Sets the summary's costs, history, steps, termination and message; an existing
/// history is continued.
///
/// Within bounds, lbfgs and newton use projection. Throws Error{NonFinite} that names the residual
/// or energy if cost or gradient are not finite at the start, and the errors of the engine.
void minimize_cost(runtime::Engine& engine, const ProblemModel& model, std::span<double> x,
                   const SolverOptions& options, Summary& summary, BestElsewhere& elsewhere,
                   Checkpoints* checkpoints = nullptr);

/// Starts to make the kernels for minimize_cost() without evaluating anything. Returns true when
/// those of its evaluations are ready; those of the engine's own steps are in progress.
bool prepare_cost(runtime::Engine& engine, const ProblemModel& model, const SolverOptions& options);

}  // namespace topograd
