// The method that makes the steps of a solve.
#pragma once

#include "summary.hpp"

namespace topograd {

/// Summary::method, or the method of the minimisations of augmented_lagrangian or barrier.
inline Method step_method(const Summary& of) {
  return takes_constraints(of.method) ? of.step_method : of.method;
}

}  // namespace topograd
