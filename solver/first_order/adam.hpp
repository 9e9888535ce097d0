// Adam, AdamW and gradient descent with momentum: steps of given size, without a line search.
#pragma once

#include "../../runtime/engine/first_order.hpp"
#include "../options.hpp"
#include "../summary.hpp"
#include "objective.hpp"

#include <functional>
#include <span>

namespace topograd {

/// Minimises from x by options.method, which is adam, adamw or sgd, with options.first_order.
///
/// These methods go up as well as down: x ends at the best point seen. They stop at the gradient
/// tolerance and at bounds; changes of cost and x are no sign of convergence and are not looked at.
/// A step to where value or gradient are not finite is refused, forgotten and tried again with half
/// the learning rate. Otherwise as descend().
///
/// Source: Kingma & Ba, Adam (2015); Loshchilov & Hutter, Decoupled Weight Decay Regularization
/// (2019).
/// With `steps_at` it goes on with an engine whose vectors stay with it, in its precision, as soon
/// as that gives one; it is asked before the first step and between steps, with the point, and
/// moves the engine there. x ends at the best point; after an exception it holds one of the best
/// points so far.
void minimize_first_order(
    const Objective& objective, std::span<double> x, const SolverOptions& options, Summary& summary,
    const std::function<runtime::FirstOrderSteps*(std::span<const double> x)>& steps_at = {},
    BestElsewhere* elsewhere = nullptr);

}  // namespace topograd
