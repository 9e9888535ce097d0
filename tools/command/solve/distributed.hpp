// Solves on several processes, as far as the command knows of them.
#pragma once

#include "../../../frontend/problem.hpp"
#include "../../../runtime/hybrid/task_record.hpp"
#include "../../../solver/options.hpp"
#include "../../../solver/summary.hpp"

#include "../input/named_problem.hpp"

#include <nlohmann/json_fwd.hpp>

#include <string>
#include <vector>

namespace topograd::command {

/// Solves problems together with other processes that run the same command.
class DistributedSolver : public ShareGroup {
 public:
  ///   of_share  each process has added a share of the residuals; otherwise all of them
  virtual Summary solve(Problem& problem, const SolverOptions& options, bool of_share) = 0;
  /// How the last solve was divided: a table for people, and the key "distributed" of reports.
  virtual std::string text() const = 0;
  virtual void describe(nlohmann::ordered_json& report) const = 0;
  /// The steps of its ranks, a lane for each; times begin with the solve.
  virtual std::vector<runtime::hybrid::TraceEvent> events() const = 0;
};

/// True if processes can solve the problem with a share of its residuals each, with the same result
/// as with all of them: steps are by conjugate gradients or lbfgs, whatever the residuals are.
/// Collective.
///
///   problem  with the share of this process
bool can_divide(const SolverOptions& options, const Problem& problem, const ShareGroup& shares);

/// The solver of this program. Null in `topograd`, which starts without MPI: there --distributed
/// runs topograd-distributed in its place.
DistributedSolver* distributed_solver();
/// `solver` outlives the command.
void set_distributed_solver(DistributedSolver* solver);

/// If a command has the option --distributed, or is `check scaling`, replaces this process by
/// topograd-distributed, which lies beside this program, with the same arguments. Otherwise, and
/// where it does not exist, returns.
void run_distributed_program(int argc, char** argv);

/// A command line without the words from "--" on, which are options of PETSc.
struct SplitArguments {
  std::vector<char*> command;  ///< ends with a null pointer
  std::vector<std::string> petsc;
  int count() const { return static_cast<int>(command.size()) - 1; }
};
SplitArguments split_arguments(int argc, char** argv);

}  // namespace topograd::command
