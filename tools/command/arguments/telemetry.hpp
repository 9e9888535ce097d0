// Files about a solve for dashboards and trace viewers.
#pragma once

#include "../../../runtime/hybrid/routing/scheduler.hpp"
#include "../../../runtime/hybrid/telemetry/telemetry.hpp"
#include "../../../solver/summary.hpp"

#include <string>
#include <vector>

namespace topograd::command {

/// From now on, prints a line to standard error when the CPU takes over from a failed device. Call
/// it before the first solve.
void warn_of_fallbacks();

/// The counters of the process's executor for a file of this name: JSON if it ends in .json, else
/// Prometheus text.
std::string metrics_text(const std::string& path);

/// The rows to which initial guesses are fitted, for a file of this name: JSON if it ends in .json,
/// else CSV.
std::string training_text(const std::string& path, const runtime::hybrid::Knowledge& knowledge);
/// The same for the executor of this process.
std::string training_text(const std::string& path);

/// Phases and steps of a solve as a Chrome trace, with one lane per backend.
///
///   more  events in other lanes, on a clock that begins with the solve
std::string trace_text(const Summary& summary, std::vector<runtime::hybrid::TraceEvent> more = {});

}  // namespace topograd::command
