// Files about a solve for dashboards and trace viewers.
#pragma once

#include "../../../runtime/hybrid/routing/scheduler.hpp"
#include "../../../runtime/hybrid/telemetry/trace.hpp"
#include "../../../solver/summary.hpp"

#include <string>
#include <vector>

namespace topograd::command {

/// From now on, prints a line to standard error when the CPU takes over from a failed device. Call
/// it before the first solve.
void warn_of_fallbacks();

/// Writes the counters of the process's executor: Prometheus text, or JSON for a path that ends in
/// .json; - for standard output. Does nothing for an empty path. Throws Error{File}.
void write_metrics(const std::string& path);

/// Writes the rows to which initial guesses are fitted: CSV, or JSON for a path that ends in .json;
/// - for standard output. Does nothing for an empty path. Throws Error{File}.
void write_training_data(const std::string& path, const runtime::hybrid::Knowledge& knowledge);
/// The same for the executor of this process.
void write_training_data(const std::string& path);

/// Writes phases and steps of a solve as a Chrome trace, with one lane per backend. Does nothing
/// for an empty path. Throws Error{File}.
///
///   more  events in other lanes, on a clock that begins with the solve
void write_trace(const std::string& path, const Summary& summary,
                 std::vector<runtime::hybrid::TraceEvent> more = {});

}  // namespace topograd::command
