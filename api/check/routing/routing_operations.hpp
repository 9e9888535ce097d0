// Internal: the part of the routing check that is about arrays and tensors.
#pragma once

#include "../../../ops/backend/device.hpp"
#include "routing.hpp"

#include <random>

namespace topograd::check {

/// Times pieces of programs on both sides, from operands on the host to results that it has read;
/// teaches the process's executor some sizes, then lets it decide over a random trace of all of
/// them. Fills in operations, operations_right_share and operations_over_oracle.
///
/// Called before anything else asks the process's executor, and with its options in the
/// environment.
void check_operations(const RoutingOptions& options, const ops::Device& device,
                      std::mt19937_64& random, RoutingReport& report);

}  // namespace topograd::check
