// Files that a solve leaves for dashboards and trace viewers.
#pragma once

#include "../../../runtime/hybrid/routing/scheduler.hpp"
#include "../../../solver/summary.hpp"

#include <string>

namespace topograd::command {

/// From here on each failure of a device that the CPU takes over from is a line on standard error.
/// Before the first solve.
void warn_of_fallbacks();

/// What the executor of this process counted: Prometheus text, JSON for a path that ends in .json,
/// - for standard output. Does nothing for an empty path. Throws Error{File}.
void write_metrics(const std::string& path);

/// The rows that first guesses are fitted on: CSV, JSON for a path that ends in .json, - for
/// standard output. Does nothing for an empty path. Throws Error{File}.
void write_training_data(const std::string& path, const runtime::hybrid::Knowledge& knowledge);
/// The same of the executor of this process.
void write_training_data(const std::string& path);

/// The phases and steps of a solve, in the lanes of what ran them, as a Chrome trace. Does nothing
/// for an empty path. Throws Error{File}.
void write_trace(const std::string& path, const Summary& summary);

}  // namespace topograd::command
