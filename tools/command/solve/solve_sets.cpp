// Solves the command's sets of problems: nist, mgh, and the poses of a robot's tip (ik).
#include "solve_sets.hpp"

#include "../../../ir/error.hpp"
#include "../../../ir/machine/stopwatch.hpp"
#include "../../../solver/interrupts.hpp"
#include "../../../solver/solve.hpp"
#include "../../../solver/summary.hpp"
#include "../../problems/inverse_kinematics.hpp"
#include "../../problems/mgh.hpp"
#include "../../problems/nist.hpp"
#include "../arguments/output.hpp"
#include "solve_peers.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <limits>
#include <span>
#include <utility>
#include <vector>

namespace topograd::command {
namespace {

using Clock = std::chrono::steady_clock;

SolverOptions set_options(const SolverArguments& arguments, bool tight) {
  SolverOptions options = to_options(arguments);
  const SolverOptions of_set = nist_options();
  if (tight && !arguments.tolerance) {
    options.function_tolerance = of_set.function_tolerance;
    options.gradient_tolerance = of_set.gradient_tolerance;
    options.parameter_tolerance = of_set.parameter_tolerance;
  }
  if (!arguments.max_iterations) options.max_iterations = of_set.max_iterations;
  return options;
}

/// Makes a start with a non-finite cost or derivative a failed run instead of ending the set.
Summary solve_or_fail(Problem& problem, const SolverOptions& options) {
  try {
    return solve(problem, options);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::NonFinite) throw;
    Summary summary;
    summary.message = error.what();
    summary.final_cost = std::numeric_limits<double>::quiet_NaN();
    return summary;
  }
}

/// The conditions of every run of a set.
struct Terms {
  const SolverArguments& arguments;
  SolverOptions options;
  const std::vector<std::string>& peers;
  bool quiet;
};

void solve_nist(const ProblemArguments& arguments, const Terms& terms, SolvedSet& out) {
  constexpr double kDigits = 6;
  const std::vector<problems::NistSet> sets = read_nist_sets(arguments);
  for (const problems::NistSet& set : sets) {
    for (std::size_t start = 0; start < set.starts.size(); ++start) {
      if (Interrupts::came()) return;
      std::unique_ptr<NamedProblem> nist = make_nist(set, start);
      Problem& problem = nist->problem();
      const std::span<const double> b(problem.arrays()[0].values, set.certified.size());
      Run run{.name = set.name,
              .start = static_cast<int>(start) + 1,
              .build_seconds = nist->build_seconds};
      const auto peers = minimize_with_peers(terms.peers, problem, terms.arguments, terms.options);
      const Summary summary = solve_or_fail(problem, terms.options);
      run.digits = problems::matching_digits(b, set.certified);
      run.solved = run.digits >= kDigits;
      for (const PeerReport& peer : peers) {
        const double digits = problems::matching_digits(peer.x, set.certified);
        run.peers.push_back({peer, digits >= kDigits, digits});
      }
      out.report.add(run, summary, b, terms.quiet);
      if (sets.size() == 1) out.alone.push_back({std::move(nist), summary});
    }
  }
}

void judge_mgh(Run& run, double cost, const std::vector<double>& minima) {
  run.digits = problems::mgh_digits(cost, minima);
  run.solved = problems::is_mgh_minimum(cost, minima);
}

void solve_mgh(const ProblemArguments& arguments, const Terms& terms, SetReport& report) {
  for (const problems::MghProblem& row : mgh_rows(arguments)) {
    for (const int factor : {1, 10, 100}) {
      if (Interrupts::came()) return;
      const Clock::time_point begin = Clock::now();
      const std::unique_ptr<problems::Mgh> mgh = problems::mgh(row, factor);
      Run run{.name = row.name, .start = factor, .build_seconds = seconds_since(begin)};
      const auto peers =
          minimize_with_peers(terms.peers, mgh->problem, terms.arguments, terms.options);
      const Summary summary = solve_or_fail(mgh->problem, terms.options);
      judge_mgh(run, summary.final_cost, row.minima);
      for (const PeerReport& peer : peers) {
        const double cost = peer.final_cost;
        run.peers.push_back({peer, problems::is_mgh_minimum(cost, row.minima),
                             problems::mgh_digits(cost, row.minima)});
      }
      report.add(run, summary, mgh->x, terms.quiet);
    }
  }
}

void solve_large_mgh(const ProblemArguments& arguments, const Terms& terms, SetReport& report) {
  for (const std::string& name : large_mgh_rows(arguments)) {
    if (Interrupts::came()) return;
    const Clock::time_point begin = Clock::now();
    const std::unique_ptr<problems::Mgh> mgh = problems::large_mgh(name, *arguments.count);
    Run run{.name = name, .build_seconds = seconds_since(begin)};
    const Summary summary = solve_or_fail(mgh->problem, terms.options);
    judge_mgh(run, summary.final_cost, {0});
    report.add(run, summary, mgh->x, terms.quiet);
  }
}

}  // namespace

SolvedSet solve_set(const ProblemArguments& problem, const SolverArguments& solver,
                    const std::vector<std::string>& peers, bool quiet) {
  const Terms terms = {solver, set_options(solver, !problem.count), peers, quiet};
  SolvedSet out;
  if (problem.name == "nist") solve_nist(problem, terms, out);
  if (problem.name == "mgh" && problem.count) solve_large_mgh(problem, terms, out.report);
  if (problem.name == "mgh" && !problem.count) solve_mgh(problem, terms, out.report);
  return out;
}

namespace {

nlohmann::ordered_json finite_or_null(double value) {
  return std::isfinite(value) ? nlohmann::ordered_json(value) : nlohmann::ordered_json();
}

/// Adds all fields except the costs.
void add_summary(Summary& total, const Summary& s) {
  if (total.termination == Termination::CONVERGENCE) total.termination = s.termination;
  if (total.backend.empty()) {  // no run had a backend yet
    total.backend = s.backend;
    total.on_device = s.on_device;
    total.device = s.device;
    total.why = s.why;
    total.accumulation = s.accumulation;
    total.linear_solver = s.linear_solver;
    total.linear_solver_note = s.linear_solver_note;
  }
  add_counts(total, s);
  total.unknowns += s.unknowns;
  total.parameters += s.parameters;
  total.residuals += s.residuals;
  total.topologies.insert(total.topologies.end(), s.topologies.begin(), s.topologies.end());
}

void print_row(const Run& run, const Summary& summary) {
  std::printf("%-22s %3d  cost %.10e  %5.2f digits  %5d iterations  %s%s\n", run.name.c_str(),
              run.start, summary.final_cost, run.digits, summary.num_iterations(),
              std::string(name(summary.termination)).c_str(), run.solved ? "" : "  NOT SOLVED");
  std::fflush(stdout);
}

nlohmann::ordered_json to_json(const PeerRun& run) {
  const PeerReport& peer = run.report;
  nlohmann::ordered_json row = {
      {"name", peer.name},           {"version", peer.version},
      {"libraries", peer.libraries}, {"linear_solver", peer.linear_solver},
      {"solved", run.solved},        {"cost", finite_or_null(peer.final_cost)}};
  row["digits"] = run.digits;
  row["iterations"] = peer.iterations;
  row["termination"] = peer.termination;
  row["time_s"] = row["solve_s"] = peer.solve_s;  // key of other problems, key of a run
  return row;
}

}  // namespace

void SetReport::add(const Run& run, const Summary& summary, std::span<const double> parameters,
                    bool quiet) {
  if (count_ == 0) {
    total_ = summary;
    total_.iterations.clear();
    total_.initial_cost = total_.final_cost = 0;
  } else {
    add_summary(total_, summary);
  }
  if (std::isfinite(summary.final_cost)) {
    total_.initial_cost += summary.initial_cost;
    total_.final_cost += summary.final_cost;
  } else {
    ++without_cost_;
  }
  total_.times.build_seconds += run.build_seconds;
  ++count_;
  solved_ += run.solved ? 1 : 0;
  if (summary.termination != Termination::CONVERGENCE && unconverged_++ == 0) {
    first_unconverged_ = run.name + " from start " + std::to_string(run.start) + ": " +
                         std::string(name(summary.termination));
  }
  if (!run.solved)
    short_ += (short_.empty() ? "" : ", ") + run.name + " from start " + std::to_string(run.start);
  nlohmann::ordered_json row = {{"name", run.name},
                                {"start", run.start},
                                {"solved", run.solved},
                                {"cost", finite_or_null(summary.final_cost)}};
  row["digits"] = run.digits;
  row["iterations"] = summary.num_iterations();
  row["termination"] = name(summary.termination);
  row["message"] = summary.message;
  row["linear_iterations"] = summary.num_linear_iterations;
  row["solve_s"] = summary.times.total_seconds;
  constexpr std::size_t kLongest = 64;
  if (parameters.size() <= kLongest) row["parameters"] = parameters;
  for (const PeerRun& peer : run.peers) {
    row["peers"].push_back(to_json(peer));
    peers_[peer.report.name + " " + peer.report.version] += peer.solved ? 1 : 0;
  }
  runs_.push_back(std::move(row));
  if (!quiet) print_row(run, summary);
}

std::string SetReport::unconverged() const {
  if (unconverged_ == 0) return "";
  return std::to_string(unconverged_) + " of " + std::to_string(count_) +
         " runs ended without convergence, the first is " + first_unconverged_;
}

std::string SetReport::verdict() const {
  std::string text = std::to_string(solved_) + " of " + std::to_string(count_) + " runs solved" +
                     (short_.empty() ? "" : "; short: " + short_);
  for (const auto& [peer, solved] : peers_) text += "; " + peer + ": " + std::to_string(solved);
  return text;
}

nlohmann::ordered_json SetReport::json() const {
  Summary total = total_;
  total.message = verdict();
  auto report = nlohmann::ordered_json::parse(to_json(total));
  report.erase("history");
  report["solved"] = solved_;
  report["runs_without_cost"] = without_cost_;
  report["runs"] = runs_;
  return report;
}

namespace {

using problems::InverseKinematics;
using problems::Joint;

std::string short_text(const char* format, double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), format, value);
  return text.data();
}

/// The q-quantile of some numbers, which are not empty.
double quantile(std::vector<double> numbers, double q) {
  const auto at = static_cast<std::ptrdiff_t>(q * static_cast<double>(numbers.size() - 1));
  std::ranges::nth_element(numbers, numbers.begin() + at);
  return numbers[static_cast<std::size_t>(at)];
}

nlohmann::ordered_json joints_json(const problems::Chain& chain) {
  nlohmann::ordered_json out = nlohmann::ordered_json::array();
  for (const Joint* joint : chain.moving()) {
    out.push_back({{"name", joint->name}, {"type", name(joint->kind)}});
    if (joint->kind == Joint::Kind::continuous) continue;
    out.back()["lower"] = joint->lower;
    out.back()["upper"] = joint->upper;
  }
  return out;
}

nlohmann::ordered_json errors_json(const std::vector<double>& errors, double tolerance) {
  return {{"tolerance", tolerance},
          {"median", quantile(errors, 0.5)},
          {"largest", quantile(errors, 1)}};
}

nlohmann::ordered_json json_of(const problems::Chain& chain, const InverseKinematics& result,
                               const IkArguments& arguments, const std::string& verdict) {
  const bool all = verdict.empty();
  nlohmann::ordered_json json = {
      {"termination", name(all ? Termination::CONVERGENCE : Termination::NO_CONVERGENCE)},
      {"message", all ? "all targets are within both tolerances" : verdict},
      {"robot", chain.robot},
      {"root", chain.root},
      {"tip", chain.tip},
      {"joints", joints_json(chain)},
      {"targets", result.count()},
      {"solved", result.solved_count()},
      {"first_starts_converged",
       std::ranges::count(result.first.components.termination, Termination::CONVERGENCE)},
      {"most_starts", arguments.starts},
      {"solves", result.solves},
      {"steps", result.steps},
      {"position_error", errors_json(result.position_error, arguments.position_tolerance)},
      {"rotation_error", errors_json(result.rotation_error, arguments.rotation_tolerance)},
      {"backend", result.first.backend},
      {"device", result.first.device},
      {"time_s", result.seconds}};
  nlohmann::ordered_json& unsolved = json["unsolved"] = nlohmann::ordered_json::array();
  for (std::size_t t = 0; t < result.count(); ++t)
    if (result.solved[t] == 0) unsolved.push_back(t);
  return json;
}

std::string text_of(const problems::Chain& chain, const InverseKinematics& result,
                    const IkArguments& arguments) {
  const std::size_t solved = result.solved_count(), count = result.count();
  const double share = 100 * static_cast<double>(solved) / static_cast<double>(count);
  const auto line = [](const std::string& what, const std::vector<double>& errors, double tolerance,
                       const std::string& unit) {
    return "  " + what + "  median " + short_text("%.3g", quantile(errors, 0.5)) + ", largest " +
           short_text("%.3g", quantile(errors, 1)) + " " + unit + "; tolerance " +
           short_text("%.3g", tolerance) + "\n";
  };
  return std::to_string(solved) + " of " + std::to_string(count) + " targets reached (" +
         short_text("%.2f", share) + " %) in " + short_text("%.3f", result.seconds) + " s\n" +
         "  chain     " + chain.root + " to " + chain.tip + ", " +
         std::to_string(chain.unknowns()) + " joints that move\n" +
         line("position", result.position_error, arguments.position_tolerance, "m") +
         line("rotation", result.rotation_error, arguments.rotation_tolerance, "rad") +
         "  solves    " + std::to_string(result.solves) + " from at most " +
         std::to_string(arguments.starts) + " starts a target, " + std::to_string(result.steps) +
         " steps\n" + "  on        " + result.first.device + "\n";
}

}  // namespace

void add_ik_options(Command app, IkArguments& arguments) {
  app.group("Inverse kinematics");
  app.option("--robot", &arguments.robot, "URDF file").only_with({"ik"});
  app.option("--targets", &arguments.targets,
             "CSV file of poses of the tip in the frame of the root: x, y, z, qx, qy, qz, qw")
      .only_with({"ik"});
  app.option("--tip", &arguments.tip,
             "link that reaches the targets; can be left out if the robot has one end")
      .only_with({"ik"});
  app.option("--starts", &arguments.starts, "most starts of a target; the best result is kept")
      .range(1, 100000)
      .only_with({"ik"});
  app.option("--position-tolerance", &arguments.position_tolerance, "error in m that is a success")
      .only_with({"ik"});
  app.option("--rotation-tolerance", &arguments.rotation_tolerance,
             "error in rad that is a success")
      .only_with({"ik"});
}

IkAnswer solve_ik(const IkArguments& arguments, const SolverArguments& solver, std::uint64_t seed,
                  nlohmann::ordered_json& json) {
  if (arguments.robot.empty())
    throw Error(ErrorCode::InvalidArgument, "ik: expected --robot FILE.urdf");
  if (arguments.targets.empty())
    throw Error(ErrorCode::InvalidArgument, "ik: expected --targets FILE.csv");
  const problems::Chain chain =
      problems::read_chain(read_text(arguments.robot), arguments.robot, arguments.tip);
  const problems::Targets targets =
      problems::read_targets(read_text(arguments.targets), arguments.targets);
  problems::InverseKinematicsOptions options{.starts = arguments.starts,
                                             .seed = seed,
                                             .position_tolerance = arguments.position_tolerance,
                                             .rotation_tolerance = arguments.rotation_tolerance};
  options.solver = to_options(solver, options.solver);
  const InverseKinematics result = problems::inverse_kinematics(chain, targets, options);
  IkAnswer answer{.csv = problems::to_csv(chain, result),
                  .text = text_of(chain, result, arguments)};
  if (const std::size_t left = result.count() - result.solved_count(); left > 0)
    answer.unconverged = "NO_CONVERGENCE: " + std::to_string(left) + " of " +
                         std::to_string(result.count()) +
                         " targets were not reached within both tolerances";
  json = json_of(chain, result, arguments, answer.unconverged);
  return answer;
}

}  // namespace topograd::command
