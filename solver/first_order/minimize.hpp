// Methods for scalar objectives on a problem and its engine.
#pragma once

#include "../checkpoint/checkpoints.hpp"
#include "../model/model.hpp"
#include "../options.hpp"
#include "../session/engines.hpp"
#include "../summary.hpp"
#include "control.hpp"

#include <span>

namespace topograd {

/// Cost and gradient of the engines' problem; derivatives by fixed scalars are 0. Both arguments
/// must outlive the result. It moves the point of the engine that serves.
Objective cost_of(Engines& engines, const runtime::Model& model);

/// Minimises the cost by options.method from x, which is always the best point, unless `elsewhere`
/// has a newer one. Sets the summary's costs, history, steps, termination and message; an existing
/// history is continued.
///
/// Within bounds, lbfgs and newton use projection. Throws Error{NonFinite} that names the residual
/// or energy if cost or gradient are not finite at the start, and the errors of the engines.
void minimize_cost(Engines& engines, const ProblemModel& model, std::span<double> x,
                   const SolverOptions& options, Summary& summary, BestElsewhere& elsewhere,
                   Checkpoints* checkpoints = nullptr);

/// Starts to make the kernels for minimize_cost() without evaluating anything. Returns true when
/// those of its evaluations are ready; those of the engine's own steps are in progress.
bool prepare_cost(Engines& engines, const ProblemModel& model, const SolverOptions& options);

}  // namespace topograd
