// Methods for scalar objectives on a problem and its engine.
#pragma once

#include "../../runtime/engine/engine.hpp"
#include "../model/model.hpp"
#include "../options.hpp"
#include "../summary.hpp"
#include "objective.hpp"

#include <span>

namespace topograd {

/// Cost and gradient of the engine's problem; derivatives by constant scalars are 0. Both outlive
/// it. Moves the engine's point.
Objective cost_of(runtime::Engine& engine, const runtime::Model& model);

/// Minimises the cost by options.method from x, which holds the best point at all times, but for
/// what `elsewhere` brings. Fills in the summary's costs, history, steps, termination and message;
/// one with a history is gone on with.
///
/// Within bounds, lbfgs and newton go by projection. Throws Error{NonFinite} that names the
/// residual or energy if cost or gradient are not finite at the start, and what the engine throws.
void minimize_cost(runtime::Engine& engine, const ProblemModel& model, std::span<double> x,
                   const SolverOptions& options, Summary& summary, BestElsewhere& elsewhere);

/// Begins to make the kernels that minimize_cost() will ask for, without evaluating anything. True
/// once those of its evaluations are there; those of the engine's own steps are under way.
bool prepare_cost(runtime::Engine& engine, const ProblemModel& model, const SolverOptions& options);

}  // namespace topograd
