// Other solvers on what `topograd solve` solves, in the same run.
#pragma once

#include "../arguments/solver_arguments.hpp"
#include "../input/named_problem.hpp"
#include "../peers/peer.hpp"

#include <nlohmann/json.hpp>

#include <string>
#include <vector>

namespace topograd::command {

/// Refuses what minimise_with_peers() could not do, before anything is solved.
///
///   peers  names: ceres
///
/// Throws Error{InvalidArgument} for a name that is none and a problem that they are not given,
/// Error{Unsupported} where this build has no such solver.
void check_peers(const std::vector<std::string>& peers, const ProblemArguments& problem);

/// Minimises the problem from the same start, in f64 on the CPU, with these bounds and tolerances.
/// Ceres takes its sparse Cholesky factorisation, or for bundle its sparse Schur complement, unless
/// `arguments` name a linear solver; its method is Levenberg-Marquardt, or dogleg.
///
/// developable and multi go to its L-BFGS with our cost and gradient.
///
///   options  that our solve had
///
/// Throws what check_peers() throws.
std::vector<PeerReport> minimize_with_peers(const std::vector<std::string>& peers,
                                            const ProblemArguments& problem,
                                            const SolverArguments& arguments,
                                            const SolverOptions& options);

/// The same for a problem of a few unknowns that is at its start, by our residuals and Jacobian;
/// dense unless `arguments` name another linear solver.
std::vector<PeerReport> minimize_with_peers(const std::vector<std::string>& peers, Problem& problem,
                                            const SolverArguments& arguments,
                                            const SolverOptions& options);

/// [{name, version, libraries, threads, precision, linear_solver, build_s, time_s, initial_cost,
/// cost, iterations, termination, message}]
nlohmann::ordered_json to_json(const std::vector<PeerReport>& peers, int threads);
/// One line: what ran, cost, iterations, time.
std::string line_of(const PeerReport& peer);

}  // namespace topograd::command
