// Progress of a solve in Ceres' form: iterations, their log, callbacks.
#pragma once

#include "../../../solver/options.hpp"
#include "../../../solver/summary.hpp"
#include "../types/iteration_callback.hpp"
#include "../types/types.hpp"

#include <functional>
#include <string>
#include <vector>

namespace ceres::internal {

IterationSummary Translate(const topograd::IterationSummary& iteration);
TerminationType FromTopograd(topograd::Termination termination);

/// Prints each iteration to the standard output if `logs`, then calls the callbacks in order, until
/// one does not return continue. Empty if there is nothing to do.
topograd::IterationCallback ForwardCallbacks(const std::vector<IterationCallback*>& callbacks,
                                             bool logs);

}  // namespace ceres::internal
