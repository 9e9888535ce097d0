// Solves on several processes against the ordinary solve, PETSc's optimiser, and failures.
#include "../../solver/solve.hpp"

#include "../support/paths.hpp"
#include "cases.hpp"

#include <gtest/gtest.h>

#include <sys/wait.h>
#include <chrono>
#include <cstdlib>
#include <string>

namespace topograd::test {
namespace {

struct RankRun {
  int status = -1;
  std::string answer, err;
  double seconds = 0;
};

RankRun run_ranks(int ranks, const std::string& arguments, const std::string& more = "") {
  const TemporaryDir folder;
  const std::filesystem::path answer = folder.path() / "answer", err = folder.path() / "err";
  const std::string command =
      "mpirun --allow-run-as-root --oversubscribe --bind-to none --mca mpi_yield_when_idle 1 -n " +
      std::to_string(ranks) + " " + (program_dir() / "tests/test_distributed_ranks").string() +
      " " + arguments.substr(0, arguments.find(' ')) + " " + answer.string() +
      (arguments.find(' ') == std::string::npos ? "" : arguments.substr(arguments.find(' '))) +
      more + " >" + (folder.path() / "out").string() + " 2>" + err.string();
  const auto start = std::chrono::steady_clock::now();
  const int status = std::system(command.c_str());
  RankRun run{.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1, .err = read_file(err)};
  run.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (std::filesystem::exists(answer)) run.answer = read_file(answer);
  run.answer += more.empty() ? "" : read_file(folder.path() / "out");
  return run;
}

std::string ordinary(const std::string& name) {
  Case of = make_case(name);
  of.options.backend = Backend::cpu;
  of.options.deterministic = true;
  const Summary summary = solve(*of.problem, of.options);
  EXPECT_GT(summary.num_successful_steps, 0) << name;
  return exact_text(of, summary);
}

/// CI has two ranks; TOPOGRAD_RANKS=4 asks for up to four.
int most_ranks() {
  const char* const asked = std::getenv("TOPOGRAD_RANKS");
  return asked == nullptr ? 2 : std::atoi(asked);
}

class DistributedCase : public testing::TestWithParam<std::string> {};

TEST_P(DistributedCase, HasTheBitsOfTheOrdinarySolve) {
  const std::string expected = ordinary(GetParam());
  for (int ranks = 1; ranks <= most_ranks(); ++ranks) {
    const RankRun run = run_ranks(ranks, GetParam());
    ASSERT_EQ(run.status, 0) << run.err;
    ASSERT_FALSE(run.answer.empty());
    EXPECT_TRUE(run.answer == expected) << ranks << " ranks; expected\n"
                                        << expected.substr(0, 400) << "got\n"
                                        << run.answer.substr(0, 400);
  }
}

INSTANTIATE_TEST_SUITE_P(All, DistributedCase, testing::ValuesIn(case_names()),
                         [](const auto& name) { return name.param; });

TEST(Distributed, TheDivisionDoesNotMatter) {
  const RankRun run = run_ranks(most_ranks(), "springs contiguous");
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_TRUE(run.answer == ordinary("springs"));
}

// The report's figures follow from the grid: 2 ranks share 1600 vertices, and each residual that is
// evaluated twice crosses the border.
TEST(Distributed, TheReportHasARowForEachRank) {
  const RankRun run = run_ranks(2, "springs report");
  ASSERT_EQ(run.status, 0) << run.err;
  unsigned long long blocks[2] = {}, ghosts[2] = {}, residuals[2] = {}, twice[2] = {};
  const std::size_t first = run.answer.find('\n') + 1;
  const std::size_t second = run.answer.find('\n', first) + 1;
  const char* const rows[2] = {run.answer.c_str() + first, run.answer.c_str() + second};
  for (int r = 0; r < 2; ++r)
    ASSERT_EQ(std::sscanf(rows[r], "%*d %llu %llu %llu %llu", &blocks[r], &ghosts[r], &residuals[r],
                          &twice[r]),
              4)
        << run.answer;
  EXPECT_EQ(blocks[0] + blocks[1], 1600U);
  // 40 · 39 edges along each axis, 39² diagonals, and four corners.
  EXPECT_EQ(residuals[0] + residuals[1] - twice[0] - twice[1], 2 * 40 * 39 + 39 * 39 + 4U);
  EXPECT_GT(ghosts[0], 0U);
  EXPECT_LT(ghosts[0], 400U);
  EXPECT_GT(twice[0] + twice[1], 0U);
}

TEST(Distributed, PetscsKrylovMethodReachesTheSameCost) {
  const RankRun own = run_ranks(2, "smooth");
  const RankRun petsc = run_ranks(2, "smooth petsc", " -- -ksp_type cg -ksp_monitor");
  ASSERT_EQ(petsc.status, 0) << petsc.err;
  EXPECT_NE(petsc.answer.find("KSP Residual norm"), std::string::npos);
  Case of = make_case("smooth");
  of.options.backend = Backend::cpu;
  const double expected = solve(*of.problem, of.options).final_cost;
  EXPECT_NEAR(std::atof(petsc.answer.c_str()), expected, 1e-6 * expected);
}

TEST(Distributed, PetscsOptimiserReachesTheSameMinimum) {
  const RankRun oracle = run_ranks(1, "smooth_sphere tao");
  ASSERT_EQ(oracle.status, 0) << oracle.err;
  const double minimum = std::atof(oracle.answer.c_str());
  const RankRun ours = run_ranks(2, "smooth_sphere");
  ASSERT_EQ(ours.status, 0) << ours.err;
  const std::size_t last = ours.answer.rfind(" cost ");
  ASSERT_NE(last, std::string::npos);
  const double cost = std::strtod(ours.answer.c_str() + last + 6, nullptr);
  EXPECT_NEAR(minimum, cost, 1e-7 * cost);
}

struct Failure {
  std::string how, expected;
};
class DistributedFailure : public testing::TestWithParam<Failure> {};

TEST_P(DistributedFailure, EndsAllRanksWithAReason) {
  const RankRun run = run_ranks(2, "springs " + GetParam().how);
  EXPECT_NE(run.status, 0);
  EXPECT_NE(run.err.find(GetParam().expected), std::string::npos) << run.err;
  EXPECT_EQ(run.err.find("topograd: rank"), run.err.rfind("topograd: rank")) << run.err;
  EXPECT_LT(run.seconds, 60);  // a rank that waits for ever does not end
  EXPECT_TRUE(run.answer.empty());
}

INSTANTIATE_TEST_SUITE_P(
    All, DistributedFailure,
    testing::Values(Failure{"throw", "topograd: rank 1: the callback has failed"},
                    Failure{"kill", "exited on signal 9"},
                    Failure{"precision", "expected the same precision on all ranks, got f64"},
                    Failure{"data", "expected the same start on all ranks, got "}),
    [](const auto& failure) { return failure.param.how; });

}  // namespace
}  // namespace topograd::test
