// Runs of test_distributed_ranks by mpirun.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace topograd::test {

/// The beginning of a command line that runs a program on so many ranks.
std::string mpirun(int ranks);

struct RankRun {
  int status = -1;
  std::string answer;  ///< empty if the run wrote none
  std::string out, err;
  double seconds = 0;  ///< by the clock
  double ended = 0;    ///< time of the system's clock
};

/// Solves a case.
///
///   words  as ranks.cpp takes them
///   petsc  options of PETSc; empty: none
RankRun run_ranks(int ranks, const std::string& name, const std::vector<std::string>& words = {},
                  const std::string& petsc = "");

/// CI has two ranks; TOPOGRAD_RANKS=4 asks for up to four.
int most_ranks();

/// The answer of the ordinary solve.
std::string ordinary_answer(const std::string& name);
/// The same of a problem with shares.
std::string ordinary_share_answer(const std::string& name);
/// The cost before the first step in an answer; −1 if there is none.
double first_cost(const std::string& answer);
/// The cost of the last step in an answer; −1 if there is none.
double last_cost(const std::string& answer);

}  // namespace topograd::test
