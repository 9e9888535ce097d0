// The order in which fronts run on several threads, and where their update matrices are stored.
#pragma once

#include "factor_plan.hpp"

namespace topograd::runtime {

/// Divides the tree into tasks and levels, and places the update matrices so that those that live
/// at one time do not overlap. Neither depends on a number of threads.
void schedule(FactorPlan& plan);

}  // namespace topograd::runtime
