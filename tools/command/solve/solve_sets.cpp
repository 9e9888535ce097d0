// Solves the command's sets of problems.
#include "solve_sets.hpp"

#include <chrono>
#include <cmath>
#include <cstdio>
#include <limits>
#include <span>
#include <utility>

#include "../../../ir/error.hpp"
#include "../../../ir/machine/stopwatch.hpp"
#include "../../../solver/add_counts.hpp"
#include "../../../solver/interrupts.hpp"
#include "../../../solver/solve.hpp"
#include "../../../solver/summary_json.hpp"
#include "../../problems/mgh.hpp"
#include "../../problems/nist.hpp"
#include "solve_peers.hpp"

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

}  // namespace topograd::command
