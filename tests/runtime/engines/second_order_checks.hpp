// Checks of second derivatives for all engines.
#pragma once

#include "../../../runtime/engine/engine.hpp"

#include <vector>

#include "engine_models.hpp"

namespace topograd::test {

/// Compares cost, gradient, hvp and Hessians of the engine at m.x with the scalar evaluator's sums
/// and differences of its gradient. m.x is restored.
///
///   bound  on relative errors
void check_second_order(runtime::Engine& engine, OwnedModel& m, double bound);

/// Hessians of all terms, one after the other, projected or not.
std::vector<std::vector<double>> hessians(runtime::Engine& engine, const OwnedModel& m,
                                          bool project);

}  // namespace topograd::test
