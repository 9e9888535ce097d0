// An engine of all ranks that continues from the state of another one.
#pragma once

#include "../../distributed/communicator.hpp"
#include "cases.hpp"

#include <string>

namespace topograd::test {

/// Makes a step by an engine of all ranks, and saves its state. Another engine restores it and
/// makes the second step. The answer has the step of both, how many calls of the driver failed in
/// the restoration on each rank, and the devices of all ranks.
///
///   failure  "KIND:RANK:SUBMISSION" of inject_failure(), counted in the restoration; empty: none
std::string restored_step(const Case& of, const std::string& failure,
                          const distributed::Communicator& ranks);

}  // namespace topograd::test
