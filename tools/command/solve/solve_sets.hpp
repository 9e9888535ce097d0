// Solves the command's sets of problems: nist and mgh.
#pragma once

#include "../arguments/solver_arguments.hpp"
#include "../input/named_problem.hpp"
#include "set_report.hpp"

#include <memory>
#include <string>
#include <vector>

namespace topograd::command {

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

}  // namespace topograd::command
