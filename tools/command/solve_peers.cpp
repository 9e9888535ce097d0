// Other solvers on what `topograd solve` solves, in the same run.
#include "command/solve_peers.hpp"

#include "command/peer_inputs.hpp"
#include "command/plot.hpp"

#include <topograd/ir/error.hpp>

namespace topograd::command {
namespace {

PeerSolve::Linear linear_of(const ProblemArguments& problem, const SolverArguments& arguments) {
  const LinearSolver asked =
      arguments.linear.empty() ? LinearSolver::automatic : parse_linear_solver(arguments.linear);
  switch (asked) {
    case LinearSolver::automatic:
      return problem.name == "bundle" ? PeerSolve::Linear::schur : PeerSolve::Linear::sparse;
    case LinearSolver::pcg: return PeerSolve::Linear::conjugate_gradients;
    case LinearSolver::cholesky: return PeerSolve::Linear::sparse;
    case LinearSolver::schur: return PeerSolve::Linear::schur;
    case LinearSolver::dense: return PeerSolve::Linear::dense;
  }
  return PeerSolve::Linear::sparse;
}

bool is_known(const ProblemArguments& problem) {
  for (const char* name : {"arap", "bundle", "smooth", "springs"})
    if (problem.name == name) return true;
  return false;
}

}  // namespace

void check_peers(const std::vector<std::string>& peers, const ProblemArguments& problem) {
  for (const std::string& peer : peers) {
    if (peer != "ceres")
      throw Error(ErrorCode::InvalidArgument, "expected --peer ceres, got \"" + peer + "\"");
    if (!is_known(problem))
      throw Error(ErrorCode::InvalidArgument,
                  problem.name + ": --peer ceres expects arap, bundle, smooth or springs");
    if (open_ceres() == nullptr)
      throw Error(ErrorCode::Unsupported,
                  "--peer ceres: this program was built where there was no Ceres");
  }
}

std::vector<PeerReport> minimize_with_peers(const std::vector<std::string>& peers,
                                            const ProblemArguments& problem,
                                            const SolverArguments& arguments,
                                            const SolverOptions& options) {
  check_peers(peers, problem);
  std::vector<PeerReport> reports;
  if (peers.empty()) return reports;
  PeerInput input = *peer_input(problem);
  input.threads = peer_threads(arguments);
  input.minimize = true;
  input.solve = {.max_iterations = options.max_iterations,
                 .max_linear_iterations = options.max_linear_iterations,
                 .function_tolerance = options.function_tolerance,
                 .gradient_tolerance = options.gradient_tolerance,
                 .parameter_tolerance = options.parameter_tolerance,
                 .time_limit_s = options.time_limit_seconds,
                 .linear = linear_of(problem, arguments),
                 .dogleg = options.method == Method::dogleg};
  open_ceres()(input, reports.emplace_back());
  return reports;
}

nlohmann::ordered_json to_json(const std::vector<PeerReport>& peers, int threads) {
  nlohmann::ordered_json out = nlohmann::ordered_json::array();
  for (const PeerReport& peer : peers) {
    out.push_back({{"name", peer.name},
                   {"version", peer.version},
                   {"libraries", peer.libraries},
                   {"threads", threads},
                   {"precision", "f64"},
                   {"linear_solver", peer.linear_solver},
                   {"build_s", peer.build_s},
                   {"time_s", peer.solve_s},
                   {"initial_cost", peer.initial_cost},
                   {"cost", peer.final_cost},
                   {"iterations", peer.iterations},
                   {"termination", peer.termination},
                   {"message", peer.message}});
  }
  return out;
}

std::string line_of(const PeerReport& peer) {
  return peer.name + " " + peer.version + " (" + peer.linear_solver + "): cost " +
         short_number(peer.final_cost, 12) + " after " + std::to_string(peer.iterations) +
         " iterations, " + short_number(peer.solve_s, 4) + " s, " + peer.termination;
}

}  // namespace topograd::command
