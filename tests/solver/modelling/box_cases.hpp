// Solves within bounds with steps on the engine, against steps on the host and other methods.
#pragma once

#include "../../../solver/options.hpp"

namespace topograd::test {

/// A membrane over an obstacle, against projected Gauss–Seidel; `tolerance` is for the heights.
void check_obstacle(const SolverOptions& options, double tolerance);

/// Many valleys cut off by bounds, and a cloth on a floor next to a wall: costs and numbers of
/// accepted and rejected steps equal those of a solve with steps by sparse Cholesky on the host, in
/// f64.
///
///   options  backend and precision
void check_against_host_steps(const SolverOptions& options);

/// Points stay within bounds that f32 cannot distinguish from their neighbours.
void check_bounds_hold_exactly(const SolverOptions& options);

}  // namespace topograd::test
