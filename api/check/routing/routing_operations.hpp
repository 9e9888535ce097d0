// Internal: the routing check of arrays and tensors.
#pragma once

#include "../../../ops/backend/device.hpp"
#include "routing.hpp"

#include <random>

namespace topograd::check {

/// Measures pieces of programs on both backends, from operands on the host to results that the host
/// reads; trains the process's executor on some sizes, then lets it decide over a random trace of
/// all sizes. Fills in operations, operations_right_share and operations_over_oracle.
///
/// Must be called before any other use of the process's executor, with its options set in the
/// environment.
void check_operations(const RoutingOptions& options, const ops::Device& device,
                      std::mt19937_64& random, RoutingReport& report);

}  // namespace topograd::check
