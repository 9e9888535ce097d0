// Solves within bounds whose steps the engine makes, against steps on the host and other methods.
#pragma once

#include "../../../solver/options.hpp"

namespace topograd::test {

/// A membrane over an obstacle, against projected Gauss–Seidel; `tolerance` of the heights.
void check_obstacle(const SolverOptions& options, double tolerance);

/// Many valleys that bounds cut off, and a cloth on a floor beside a wall: costs and numbers of
/// accepted and rejected steps are those of a solve whose steps are made on the host by sparse
/// Cholesky, in f64.
///
///   options  backend and precision
void check_against_host_steps(const SolverOptions& options);

/// Points come back within bounds that f32 cannot tell from their neighbours.
void check_bounds_hold_exactly(const SolverOptions& options);

}  // namespace topograd::test
