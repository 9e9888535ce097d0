// A problem as functions that other solvers call.
#pragma once

#include "peer.hpp"

#include "../../../frontend/problem.hpp"

namespace topograd::command {

/// Residuals and Jacobian of a problem without energies, or cost and gradient of a problem with
/// energies, by the interpreter in f64. Robust losses, bounds, manifolds and constants are not
/// passed on.
///
///   problem  must outlive the functions
///   threads  of the interpreter
PeerFunctions peer_functions(Problem& problem, int threads);

}  // namespace topograd::command
