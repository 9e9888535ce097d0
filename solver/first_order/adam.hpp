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
/// These methods also go uphill: x ends at the best point seen. They stop at the gradient tolerance
/// and at limits; changes of cost and x are not tested, because they do not show convergence. A
/// step to a value or gradient that is not finite is rejected and retried with an empty history and
/// half the learning rate. Otherwise like descend().
///
/// With `steps_at` it continues on an engine that keeps the vectors, in its precision, as soon as
/// one is available; it is called before the first step and between steps, with the point, and
/// moves the engine there. x ends at the best point; after an exception it is one of the best
/// points so far.
///
/// Source: Kingma & Ba, Adam (2015); Loshchilov & Hutter, Decoupled Weight Decay Regularization
/// (2019).
void minimize_first_order(
    const Objective& objective, std::span<double> x, const SolverOptions& options, Summary& summary,
    const std::function<runtime::FirstOrderSteps*(std::span<const double> x)>& steps_at = {},
    BestElsewhere* elsewhere = nullptr);

}  // namespace topograd
