// Inputs of other solvers: copies of a problem, and callbacks that evaluate it.
#pragma once

#include "../../../frontend/problem.hpp"
#include "../../problems/springs.hpp"
#include "../arguments/shared_arguments.hpp"
#include "../input/named_problem.hpp"
#include "peer.hpp"

#include <optional>

namespace topograd::command {

/// springs, arap, smooth, developable (the covariance energy of manifolds), bundle, bal, colmap and
/// pose-graph as numbers, from the same start; empty for other problems. Throws what making the
/// problem throws.
std::optional<PeerInput> peer_input(const ProblemArguments& arguments);
/// Springs and anchors of a grid.
PeerInput springs_input(const problems::SpringGrid& grid);

/// Ceres, if this program was built with it; null otherwise.
RunPeer open_ceres();

/// --threads, or the number of threads of the machine.
int peer_threads(const SolverArguments& arguments);

/// Residuals and Jacobian of a problem without energies, or cost and gradient of a problem with
/// energies, by the interpreter in f64. Robust losses, bounds, manifolds and constants are not
/// passed on.
///
///   problem  must outlive the functions
///   threads  of the interpreter
PeerFunctions peer_functions(Problem& problem, int threads);

}  // namespace topograd::command
