// Problems in the form of other solvers, and access to these solvers.
#pragma once

#include "../../problems/springs.hpp"
#include "../arguments/solver_arguments.hpp"
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

}  // namespace topograd::command
