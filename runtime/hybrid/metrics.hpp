// An executor's counters as Prometheus text and as JSON.
#pragma once

#include "executor.hpp"

#include <string>

namespace topograd::runtime::hybrid {

/// Text exposition format 0.0.4. docs/hybrid.md lists names, labels and units.
std::string prometheus_text(const Executor& executor);

/// The same as one JSON object, with capabilities and each kernel's history (hash, counts, times).
std::string metrics_json(const Executor& executor);

}  // namespace topograd::runtime::hybrid
