// The counts and times of several solves as one.
#pragma once

#include "summary.hpp"

namespace topograd {

/// Adds the steps, counters and times of a solve to those of another one.
void add_counts(Summary& total, const Summary& more);

}  // namespace topograd
