// Solves the command's sets of problems.
#include "solve_sets.hpp"

#include "solve_peers.hpp"

#include "../../problems/mgh.hpp"
#include "../../problems/nist.hpp"

#include "../../../ir/error.hpp"
#include "../../../ir/machine/stopwatch.hpp"
#include "../../../solver/interrupts.hpp"
#include "../../../solver/solve.hpp"

#include <chrono>
#include <limits>
#include <span>
#include <utility>

namespace topograd::command {
namespace {

using Clock = std::chrono::steady_clock;

SolverOptions set_options(const SolverArguments& arguments, bool tight) {
  SolverOptions options = to_options(arguments);
  if (tight && !arguments.tolerance) {
    options.function_tolerance = options.gradient_tolerance = options.parameter_tolerance =
        std::numeric_limits<double>::epsilon();
  }
  if (!arguments.max_iterations) options.max_iterations = 10'000;
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

}  // namespace topograd::command
