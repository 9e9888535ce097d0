// Solves the command's sets of problems: nist, mgh, and the poses of a robot's tip (ik).
#pragma once

#include "../../../solver/summary.hpp"
#include "../arguments/arguments.hpp"
#include "../arguments/shared_arguments.hpp"
#include "../input/named_problem.hpp"
#include "../peers/peer.hpp"
#include "answer.hpp"

#include <nlohmann/json.hpp>
#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace topograd::command {

/// Result of another solver from the same start.
struct PeerRun {
  PeerReport report;
  bool solved = false;
  double digits = 0;
};

/// Result of one solve of a set.
struct Run {
  std::string name;  ///< of the problem
  int start = 1;     ///< number of the start, or factor of the standard start
  bool solved = false;
  double digits = 0;  ///< that agree with the certified parameters or the minimum
  double build_seconds = 0;
  std::vector<PeerRun> peers;
};

/// Collects runs with the same options.
class SetReport {
 public:
  /// Adds the run and prints its line unless `quiet`.
  ///
  ///   parameters  at the end
  void add(const Run& run, const Summary& summary, std::span<const double> parameters, bool quiet);
  /// Adds the answer of a run to its row.
  void describe_run(std::size_t run, const Answer& answer) { describe(answer, runs_[run]); }

  /// "2 of 54 runs ended without convergence, the first is BoxBOD from start 1: NO_CONVERGENCE";
  /// empty if all converged.
  std::string unconverged() const;
  /// "35 of 36 runs solved; short: BoxBOD from start 1", and the number that each peer solved.
  std::string verdict() const;
  /// The keys of one solve's report as sums over the runs, without history (termination: the first
  /// that is not CONVERGENCE; costs: of runs that have one); solved; runs_without_cost, whose start
  /// cannot be evaluated; and runs [{name, start, solved, cost, digits, iterations, termination,
  /// message, linear_iterations, solve_s, parameters, peers, and the additions of describe_run()}];
  /// a peer's run has name, version, linear_solver, solved, cost, digits, iterations, termination
  /// and solve_s.
  nlohmann::ordered_json json() const;

 private:
  Summary total_;
  int count_ = 0, solved_ = 0, without_cost_ = 0;
  std::string short_;    // runs that were not solved
  int unconverged_ = 0;  // number of runs without convergence, and the first:
  std::string first_unconverged_;
  std::map<std::string, int> peers_;  // runs solved by peers
  nlohmann::ordered_json runs_ = nlohmann::ordered_json::array();
};

/// True for names of problem sets.
inline bool is_set(const std::string& name) { return name == "nist" || name == "mgh"; }

/// One run of a set with a single problem.
struct LoneRun {
  std::unique_ptr<NamedProblem> problem;  ///< at its end
  Summary summary;
};

struct SolvedSet {
  SetReport report;
  std::vector<LoneRun> alone;  ///< the runs, if the set is a single problem of nist
};

/// Solves every problem of a set from each of its starts with the same options: the given ones, and
/// otherwise 10,000 iterations and, without --count, tolerances of 2.2·10⁻¹⁶.
///
/// nist: the files *.dat of --data, both starts; solved = 6 digits in every parameter. mgh: 1 ×, 10
/// × and 100 × the standard start, or with --count the large problems with that many unknowns;
/// solved = a published minimum to 10⁻⁴.
///
/// After a signal (Interrupts) no further run begins.
///
///   peers  solve each run, too, from the same start (solve_peers.hpp)
///   quiet  do not print a line per run
SolvedSet solve_set(const ProblemArguments& problem, const SolverArguments& solver,
                    const std::vector<std::string>& peers, bool quiet);

/// Options of ik.
struct IkArguments {
  std::string robot, targets, tip;
  int starts = 16;
  double position_tolerance = 5e-3, rotation_tolerance = 0.05;
};
void add_ik_options(Command app, IkArguments& arguments);

/// What a solve of ik leaves.
struct IkAnswer {
  std::string csv;          ///< of --out
  std::string text;         ///< for people
  std::string unconverged;  ///< empty if all targets were reached
};
/// Reads robot and targets, and solves. Throws Error{InvalidArgument} without --robot or --targets,
/// and what reading and solving throw.
///
///   seed  of the starts after the first
///   json  out: the report
IkAnswer solve_ik(const IkArguments& arguments, const SolverArguments& solver, std::uint64_t seed,
                  nlohmann::ordered_json& json);

}  // namespace topograd::command
