// What the locality order of blocks and instances is worth.
#pragma once

#include "../../../solver/model/model.hpp"
#include "../../../solver/options.hpp"

#include <nlohmann/json_fwd.hpp>

#include <span>
#include <string>
#include <vector>

namespace topograd::command {

/// Times evaluations on two engines in turn, one in the order that the plan finds and one in the
/// order that is there.
///
///   x      where to evaluate
///   pairs  of timings of each evaluation, >= 1
///
/// Returns {reordered: whether an order was found and is used, pairs, and for residual, jacobian,
/// gradient and jtjp, or cost, gradient and hvp of energies, {found_us, kept_us: medians, ratio:
/// median of found / kept over the pairs}}.
nlohmann::ordered_json compare_orders(const ProblemModel& model, const SolverOptions& options,
                                      std::span<const double> x, int pairs);

}  // namespace topograd::command
