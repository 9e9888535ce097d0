// Adam, AdamW and gradient descent with momentum: steps of given size, without a line search.
#pragma once

#include "../../runtime/engine/first_order.hpp"
#include "../checkpoint/checkpoints.hpp"
#include "../options.hpp"
#include "../summary.hpp"
#include "control.hpp"

#include <functional>
#include <span>

namespace topograd {

/// minimize_first_order() that continues on an engine that keeps the vectors, in its precision, as
/// soon as one is available.
///
///   steps_at  called before the first step and between steps, with the point, and moves the engine
///             there
///
/// x ends at the best point; after an exception it is one of the best points so far.
void minimize_first_order(
    const Objective& objective, std::span<double> x, const SolverOptions& options, Summary& summary,
    const std::function<runtime::FirstOrderSteps*(std::span<const double> x)>& steps_at,
    BestElsewhere* elsewhere = nullptr, Checkpoints* checkpoints = nullptr);

}  // namespace topograd
