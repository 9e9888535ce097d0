// Solves one of the cases on the processes of mpirun, for distributed_test.cpp.
//
//   mpirun -n N test_distributed_ranks CASE FILE [petsc | contiguous | FAILURE] [-- PETSC OPTIONS]
#include "../../distributed/distributed_problem.hpp"
#include "../../ir/error.hpp"

#include "cases.hpp"
#include "tao.hpp"

#include <algorithm>
#include <csignal>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace topograd::test {
namespace {

/// What happens on the last rank after its second step.
SolverOptions with_failure(const std::string& failure, SolverOptions options,
                           const distributed::Communicator& ranks) {
  if (ranks.rank() + 1 != ranks.size()) return options;
  if (failure == "precision") options.precision = Precision::f32;
  if (failure == "throw" || failure == "kill") {
    options.callback = [failure](const IterationSummary& step) {
      if (step.iteration == 2 && failure == "throw")
        throw std::runtime_error("the callback has failed");
      if (step.iteration == 2) std::raise(SIGKILL);
      return CallbackReturn::SOLVER_CONTINUE;
    };
  }
  return options;
}

int run(const std::vector<std::string>& words, const distributed::Communicator& ranks) {
  const std::string how = words.size() > 2 ? words[2] : "";
  Case solved = make_case(words.at(0));
  std::string text;
  if (how == "tao") {
    text = tao_text(solved);
  } else {
    if (how == "data" && ranks.rank() == 1) {
      const auto first = solved.unknowns[0].data();
      *const_cast<double*>(first) += 1;
    }
    DistributedReport report;
    const DistributedOptions distribution{
        .partition = how == "contiguous" ? distributed::PartitionMethod::contiguous
                                         : distributed::PartitionMethod::ptscotch,
        .petsc_krylov = how == "petsc"};
    const Summary summary = solve(ranks, *solved.problem, with_failure(how, solved.options, ranks),
                                  distribution, &report);
    text = how == "report" ? topograd::text(report) : exact_text(solved, summary);
    if (how == "petsc") text = std::to_string(summary.final_cost) + "\n";
  }
  if (ranks.rank() == 0) std::ofstream(words.at(1)) << text;
  return 0;
}

}  // namespace
}  // namespace topograd::test

int main(int argc, char** argv) {
  std::vector<std::string> words(argv + 1, argv + argc), petsc;
  const auto dashes = std::ranges::find(words, "--");
  if (dashes != words.end()) {
    petsc.assign(dashes + 1, words.end());
    words.erase(dashes, words.end());
  }
  const topograd::distributed::Session session(&argc, &argv, petsc);
  const topograd::distributed::Communicator ranks(MPI_COMM_WORLD);
  try {
    return topograd::test::run(words, ranks);
  } catch (const std::exception& error) {
    ranks.fail(error.what());
  }
}
