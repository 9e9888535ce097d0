// Measures the benefit of the locality order of blocks and instances.
#pragma once

#include "../../../solver/model/model.hpp"
#include "../../../solver/options.hpp"

#include <nlohmann/json_fwd.hpp>

#include <span>
#include <string>
#include <vector>

namespace topograd::command {

/// Times evaluations on two engines alternately, with the order that the plan finds and without.
///
///   x      point of the evaluations
///   pairs  timings of each evaluation, >= 1
///
/// Returns {reordered: true if an order was found and is used, pairs, and for residual, jacobian,
/// gradient and jtjp, or cost, gradient and hvp of energies, {found_us, kept_us: medians, ratio:
/// median of found / kept over the pairs}}.
nlohmann::ordered_json compare_orders(const ProblemModel& model, const SolverOptions& options,
                                      std::span<const double> x, int pairs);

}  // namespace topograd::command
