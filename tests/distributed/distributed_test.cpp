// Solves on several processes against the ordinary solve and PETSc's optimiser.
#include "../../solver/solve.hpp"
#include "../support/paths.hpp"

#include "cases.hpp"
#include "launch.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

namespace topograd::test {
namespace {

class DistributedCase : public testing::TestWithParam<std::string> {};

TEST_P(DistributedCase, HasTheBitsOfTheOrdinarySolve) {
  const std::string expected = ordinary_answer(GetParam());
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

// The ordinary solves have the stored bits, which topograd check repeat compares.
INSTANTIATE_TEST_SUITE_P(Portable, DistributedCase, testing::ValuesIn(portable_case_names()),
                         [](const auto& name) { return name.param; });

TEST(Distributed, TheDivisionDoesNotMatter) {
  const RankRun run = run_ranks(most_ranks(), "springs", {"contiguous"});
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_TRUE(run.answer == ordinary_answer("springs"));
}

// Threads, and random numbers that go on from call to call, once made others each time.
TEST(Distributed, DivisionsAreTheSameInEveryRun) {
  for (const char* name : {"springs", "arap", "bundle"}) {
    SCOPED_TRACE(name);
    const RankRun all = run_ranks(4, name, {"divide"});
    ASSERT_EQ(all.status, 0) << all.err;
    const std::string first = all.answer.substr(0, all.answer.find('\n') + 1);
    std::string ten;
    for (int k = 0; k < 10; ++k) ten += first;
    EXPECT_EQ(all.answer, ten);
    for (const char* rank : {"0 ", "1 ", "2 ", "3 "})
      EXPECT_NE(first.find(rank), std::string::npos);
    // Shares have the same residuals, so ranks join the same graph.
    const RankRun of_shares = run_ranks(4, name, {"divide", "share"});
    ASSERT_EQ(of_shares.status, 0) << of_shares.err;
    EXPECT_EQ(of_shares.answer, ten);
  }
}

// The report's figures follow from the grid: 2 ranks share 1600 vertices, and each residual that is
// evaluated twice crosses the border.
TEST(Distributed, TheReportHasARowForEachRank) {
  const RankRun run = run_ranks(2, "springs", {"report"});
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

// Each rank has a lane with all steps, which follow each other on one clock.
TEST(Distributed, ATraceHasALaneForEachRank) {
  const TemporaryDir folder;
  const std::string trace = folder.path() / "trace.json", report = folder.path() / "report.json";
  const std::string command =
      mpirun(2) + (program_dir() / "topograd").string() +
      " solve springs --width 20 --linear pcg --max-iterations 4 --distributed --trace " + trace +
      " --json " + report + " >/dev/null";
  ASSERT_EQ(std::system(command.c_str()), 0);
  const auto steps = nlohmann::json::parse(read_file(report))["iterations"].get<std::size_t>();
  std::map<int, std::string> lanes;
  std::map<std::string, std::vector<nlohmann::json>> events;
  const auto all = nlohmann::json::parse(read_file(trace));
  for (const auto& event : all["traceEvents"]) {
    const int lane = event["tid"];
    if (event["ph"] == "M") {
      lanes[lane] = event["args"]["name"];
    } else {
      events[lanes.at(lane)].push_back(event);
    }
  }
  EXPECT_TRUE(events.contains("cpu"));
  EXPECT_FALSE(events.contains("rank 2"));
  for (const std::string rank : {"rank 0", "rank 1"}) {
    SCOPED_TRACE(rank);
    ASSERT_EQ(events[rank].size(), steps + 1);  // and the start
    double end = 0;
    for (std::size_t k = 0; k <= steps; ++k) {
      const nlohmann::json& event = events[rank][k];
      EXPECT_EQ(event["name"], "step " + std::to_string(k));
      EXPECT_GE(event["ts"].get<double>(), end - 1);  // microseconds, printed
      end = event["ts"].get<double>() + event["dur"].get<double>();
      const double waited = 1e3 * std::stod(event["args"]["waited_ms"].get<std::string>());
      EXPECT_GT(waited, 0);
      EXPECT_LT(waited, event["dur"].get<double>());
    }
  }
}

TEST(Distributed, PetscsKrylovMethodReachesTheSameCost) {
  const RankRun petsc = run_ranks(2, "smooth", {"petsc"}, "-ksp_type cg -ksp_monitor");
  ASSERT_EQ(petsc.status, 0) << petsc.err;
  EXPECT_NE(petsc.out.find("KSP Residual norm"), std::string::npos);
  Case of = make_case("smooth");
  of.options.backend = Backend::cpu;
  const double expected = solve(*of.problem, of.options).final_cost;
  EXPECT_NEAR(std::atof(petsc.answer.c_str()), expected, 1e-6 * expected);
}

TEST(Distributed, PetscsOptimiserReachesTheSameMinimum) {
  const RankRun oracle = run_ranks(1, "smooth_sphere", {"tao"});
  ASSERT_EQ(oracle.status, 0) << oracle.err;
  const double minimum = std::atof(oracle.answer.c_str());
  const RankRun ours = run_ranks(2, "smooth_sphere");
  ASSERT_EQ(ours.status, 0) << ours.err;
  const std::size_t last = ours.answer.rfind(" cost ");
  ASSERT_NE(last, std::string::npos);
  const double cost = std::strtod(ours.answer.c_str() + last + 6, nullptr);
  EXPECT_NEAR(minimum, cost, 1e-7 * cost);
}

}  // namespace
}  // namespace topograd::test
