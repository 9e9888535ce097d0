// A problem as functions that other solvers call.
#pragma once

#include "peer.hpp"

#include "../../../frontend/problem.hpp"

namespace topograd::command {

/// Residuals and Jacobian of a problem without energies, cost and gradient of another, by the
/// interpreter in f64. Robust losses, bounds, manifolds and constants are not told.
///
///   problem  outlives the functions
///   threads  of the interpreter
PeerFunctions peer_functions(Problem& problem, int threads);

}  // namespace topograd::command
