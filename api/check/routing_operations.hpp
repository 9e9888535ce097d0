// Internal: the part of the routing check that is about arrays and tensors.
#pragma once

#include <topograd/api/check/routing.hpp>

#include <random>

namespace topograd::check {

/// A side that takes at most this many times what the other takes is right, too.
inline constexpr double kRightWithin = 1.1;

/// Times pieces of programs on both sides, from operands on the host to results that it has read;
/// teaches the process's executor some sizes, then lets it decide over a random trace of all of
/// them. Fills in operations, operations_right_share and operations_over_oracle.
///
///   device  name of the one that tasks went to
void check_operations(const RoutingOptions& options, const std::string& device,
                      std::mt19937_64& random, RoutingReport& report);

}  // namespace topograd::check
