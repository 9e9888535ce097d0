// Runs other solvers on the problems of `topograd solve`.
#pragma once

#include "../arguments/shared_arguments.hpp"
#include "../input/named_problem.hpp"
#include "../peers/peer.hpp"

#include <nlohmann/json.hpp>

#include <string>
#include <vector>

namespace topograd::command {

/// Rejects, before any solve, requests that minimize_with_peers() does not support.
///
///   peers  names: ceres
///
/// Throws Error{InvalidArgument} for an unknown name and for an unsupported problem,
/// Error{Unsupported} if this build does not include the solver.
void check_peers(const std::vector<std::string>& peers, const ProblemArguments& problem);

/// Minimises the problem from the same start, in f64 on the CPU, with the same bounds and
/// tolerances. Ceres uses its sparse Cholesky factorisation, or for bundle its sparse Schur
/// complement, unless `arguments` select a linear solver; its method is Levenberg-Marquardt or
/// dogleg.
///
/// For developable and multi it uses L-BFGS with this library's cost and gradient.
///
///   options  of this library's solve
///
/// Throws what check_peers() throws.
std::vector<PeerReport> minimize_with_peers(const std::vector<std::string>& peers,
                                            const ProblemArguments& problem,
                                            const SolverArguments& arguments,
                                            const SolverOptions& options);

/// The same for a small problem at its start, with this library's residuals and Jacobian; dense
/// unless `arguments` select another linear solver.
std::vector<PeerReport> minimize_with_peers(const std::vector<std::string>& peers, Problem& problem,
                                            const SolverArguments& arguments,
                                            const SolverOptions& options);

/// [{name, version, libraries, threads, precision, linear_solver, build_s, time_s, initial_cost,
/// cost, iterations, termination, message}]
nlohmann::ordered_json to_json(const std::vector<PeerReport>& peers, int threads);
/// One line: solver, cost, iterations, time.
std::string line_of(const PeerReport& peer);

}  // namespace topograd::command
