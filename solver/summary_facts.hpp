// What is derived from summaries: the method of the steps, and sums over several solves.
#pragma once

#include "summary.hpp"

namespace topograd {

/// Adds the steps, counters and times of a solve to those of another one.
void add_counts(Summary& total, const Summary& more);

/// Summary::method, or the method of the minimisations of augmented_lagrangian or barrier.
inline Method step_method(const Summary& of) {
  return takes_constraints(of.method) ? of.step_method : of.method;
}

}  // namespace topograd
