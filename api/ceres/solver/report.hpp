// Progress and reports of a solve in Ceres' form: iterations, their log, callbacks, layout.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "../../../solver/options.hpp"
#include "../../../solver/summary.hpp"
#include "../types/solver_types.hpp"
#include "../types/types.hpp"

namespace ceres::internal {

IterationSummary Translate(const topograd::IterationSummary& iteration);
TerminationType FromTopograd(topograd::Termination termination);

/// Prints each iteration to the standard output if `logs`, then calls the callbacks in order, until
/// one does not return continue. Empty if there is nothing to do.
topograd::IterationCallback ForwardCallbacks(const std::vector<IterationCallback*>& callbacks,
                                             bool logs);

/// snprintf into a string.
[[gnu::format(printf, 1, 2)]] std::string Format(const char* text, ...);
/// "Topograd 0.1.0".
std::string VersionText();
std::string Seconds(const char* label, double value);
/// A line with a time and the number of evaluations or solves.
std::string Seconds(const char* label, double value, int count);
/// Lists the options without effect; empty if there are none.
std::string WithoutEffectText(const std::vector<std::string>& names);
std::string TerminationText(TerminationType termination, const std::string& message);
/// True if the parameters are at least as good as at the start.
bool IsUsable(TerminationType termination);

}  // namespace ceres::internal
