// The method that makes the steps of a solve.
#pragma once

#include "summary.hpp"

namespace topograd {

/// Summary::method, or the method of augmented_lagrangian's minimisations.
inline Method step_method(const Summary& of) {
  return of.method == Method::augmented_lagrangian ? of.step_method : of.method;
}

}  // namespace topograd
