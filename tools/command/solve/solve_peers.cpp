// Runs other solvers on the problems of `topograd solve`.
#include "solve_peers.hpp"

#include "../input/photo_model.hpp"
#include "../peers/peer_inputs.hpp"
#include "html_report.hpp"
#include "solve_sets.hpp"

#include "../../../ir/error.hpp"
#include "../../../solver/linear/factor/blas_threads.hpp"

#include <algorithm>
#include <limits>

namespace topograd::command {
namespace {

PeerSolve::Linear linear_of(const SolverArguments& arguments, PeerSolve::Linear automatic) {
  const LinearSolver asked =
      arguments.linear.empty() ? LinearSolver::automatic : parse_linear_solver(arguments.linear);
  switch (form_of(asked)) {
    case LinearForm::undecided: return automatic;
    case LinearForm::products: return PeerSolve::Linear::conjugate_gradients;
    case LinearForm::factor: return PeerSolve::Linear::sparse;
    case LinearForm::elimination: return PeerSolve::Linear::schur;
    case LinearForm::jacobian: return PeerSolve::Linear::dense;
  }
  return automatic;
}

PeerSolve solve_of(const SolverOptions& options, PeerSolve::Linear linear) {
  return {.max_iterations = options.max_iterations,
          .max_linear_iterations = options.max_linear_iterations,
          .function_tolerance = options.function_tolerance,
          .gradient_tolerance = options.gradient_tolerance,
          .parameter_tolerance = options.parameter_tolerance,
          .time_limit_s = options.time_limit_seconds,
          .linear = linear,
          .dogleg = options.method == Method::dogleg};
}

/// True if only this library can evaluate the problem.
bool by_functions(const std::string& name) { return name == "developable" || name == "multi"; }

bool is_known(const ProblemArguments& problem) {
  for (const char* name :
       {"arap", "bal", "bundle", "colmap", "openmvg", "pose-graph", "smooth", "springs"})
    if (problem.name == name) return true;
  return by_functions(problem.name) || (is_set(problem.name) && !problem.count);
}

PeerInput functions_input(Problem& problem, int threads) {
  PeerInput input;
  input.x.resize(problem.parameter_count());
  problem.read_x(input.x);
  input.functions = peer_functions(problem, threads);
  return input;
}

/// Limits BLAS to the best number of threads: with all threads of the machine, factorisations would
/// take many times as long.
void run_ceres(const PeerInput& input, PeerReport& report) {
  const BlasThreadLimit limit(
      blas_threads(std::numeric_limits<double>::infinity(), std::max(input.threads, 1)));
  open_ceres()(input, report);
}

}  // namespace

void check_peers(const std::vector<std::string>& peers, const ProblemArguments& problem) {
  for (const std::string& peer : peers) {
    if (peer != "ceres")
      throw Error(ErrorCode::InvalidArgument, "expected --peer ceres, got \"" + peer + "\"");
    if (!is_known(problem))
      throw Error(ErrorCode::InvalidArgument,
                  problem.name + (problem.count ? " --count" : "") +
                      ": --peer ceres expects arap, bal, bundle, colmap, "
                      "developable, mgh, multi, nist, openmvg, pose-graph, smooth or springs");
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
  std::unique_ptr<NamedProblem> fresh;
  PeerInput input;
  if (by_functions(problem.name)) {
    fresh = make_problem(problem);
    input = functions_input(fresh->problem(), peer_threads(arguments));
  } else {
    std::optional<PeerInput> written = peer_input(problem);
    if (!written)
      throw Error(ErrorCode::Unsupported,
                  problem.name +
                      ": --peer ceres takes no graphs with landmarks or priors, and no models of "
                      "photographs with a camera model that is newer than THIN_PRISM_FISHEYE");
    input = *std::move(written);
  }
  input.threads = peer_threads(arguments);
  input.minimize = true;
  input.solve =
      solve_of(options, linear_of(arguments, problem.name == "bundle" || problem.name == "bal" ||
                                                     is_photo_model(problem.name)
                                                 ? PeerSolve::Linear::schur
                                                 : PeerSolve::Linear::sparse));
  run_ceres(input, reports.emplace_back());
  return reports;
}

std::vector<PeerReport> minimize_with_peers(const std::vector<std::string>& peers, Problem& problem,
                                            const SolverArguments& arguments,
                                            const SolverOptions& options) {
  std::vector<PeerReport> reports;
  if (peers.empty()) return reports;
  PeerInput input = functions_input(problem, 1);
  input.minimize = true;
  input.solve = solve_of(options, linear_of(arguments, PeerSolve::Linear::dense));
  run_ceres(input, reports.emplace_back());
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
