// Ranks on devices: the same bits for one rank and for two, which may share one device.
#include "../../solver/session/device_engine.hpp"
#include "../../solver/solve.hpp"
#include "../support/paths.hpp"

#include "cases.hpp"
#include "launch.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

namespace topograd::test {
namespace {

/// CI has the first ones; TOPOGRAD_RANK_CASES=all asks for all.
std::vector<std::string> cases() {
  if (std::getenv("TOPOGRAD_RANK_CASES") == nullptr) return {"springs", "bounds", "manifold_pcg"};
  std::vector<std::string> all = case_names();
  std::erase(all, "springs_mixed");
  return all;
}

/// The same for shares. Steps on manifolds are made on CPUs.
std::vector<std::string> share_cases() {
  if (std::getenv("TOPOGRAD_RANK_CASES") == nullptr) return {"last", "bounds", "numbers"};
  std::vector<std::string> all = share_case_names();
  for (const char* refused : {"springs_mixed", "manifold"}) std::erase(all, refused);
  return all;
}

class DeviceRanks : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    const DeviceFacts device = probe_device({});
    if (!device.available) GTEST_SKIP() << "no Vulkan device: " << device.problem;
    if (!device.float64) GTEST_SKIP() << "the device has no float64";
  }
};

TEST_P(DeviceRanks, HaveTheSameBits) {
  const RankRun one = run_ranks(1, GetParam(), {"vulkan"});
  ASSERT_EQ(one.status, 0) << one.err;
  const RankRun two = run_ranks(2, GetParam(), {"vulkan"});
  ASSERT_EQ(two.status, 0) << two.err;
  EXPECT_TRUE(one.answer == two.answer) << "one rank\n"
                                        << one.answer.substr(0, 400) << "two ranks\n"
                                        << two.answer.substr(0, 400);
  const double cost = last_cost(one.answer), expected = last_cost(ordinary_answer(GetParam()));
  EXPECT_NEAR(cost, expected, 1e-5 * expected);
}

INSTANTIATE_TEST_SUITE_P(All, DeviceRanks, testing::ValuesIn(cases()),
                         [](const auto& name) { return name.param; });

// The cost of the start tells whether a device reads the numbers of all residuals rightly, and that
// of the end whether their derivatives have them too.
class DeviceShares : public DeviceRanks {};

TEST_P(DeviceShares, HaveTheCostsOfTheOrdinarySolve) {
  const std::string ordinary = ordinary_share_answer(GetParam());
  const double start = first_cost(ordinary), end = last_cost(ordinary);
  const RankRun one = run_ranks(1, GetParam(), {"vulkan", "share"});
  ASSERT_EQ(one.status, 0) << one.err;
  EXPECT_NEAR(first_cost(one.answer), start, 1e-12 * start);
  EXPECT_NEAR(last_cost(one.answer), end, 1e-5 * end);
  const RankRun two = run_ranks(2, GetParam(), {"vulkan", "share"});
  ASSERT_EQ(two.status, 0) << two.err;
  EXPECT_TRUE(one.answer == two.answer) << "one rank\n"
                                        << one.answer.substr(0, 400) << "two ranks\n"
                                        << two.answer.substr(0, 400);
}

INSTANTIATE_TEST_SUITE_P(All, DeviceShares, testing::ValuesIn(share_cases()),
                         [](const auto& name) { return name.param; });

using DeviceRanksOnce = DeviceRanks;
INSTANTIATE_TEST_SUITE_P(One, DeviceRanksOnce, testing::Values("springs"));

TEST_P(DeviceRanksOnce, AreNamedInTheReport) {
  const RankRun run = run_ranks(2, GetParam(), {"vulkan", "report"});
  ASSERT_EQ(run.status, 0) << run.err;
  const std::string device = probe_device({}).name;
  const std::size_t first = run.answer.find(device);
  ASSERT_NE(first, std::string::npos) << run.answer;
  EXPECT_NE(run.answer.find(device, first + 1), std::string::npos) << run.answer;
}

// A vector of its 4,800 unknowns has 38,400 bytes. Two ranks need a little more than half of that.
TEST_P(DeviceRanksOnce, SolveWhatDoesNotFitOneDevice) {
  const std::string limit = "range=24000";
  const RankRun one = run_ranks(1, GetParam(), {"vulkan", limit});
  EXPECT_NE(one.status, 0);
  EXPECT_NE(one.err.find("4800 unknowns need a storage buffer range"), std::string::npos)
      << one.err;
  const RankRun two = run_ranks(2, GetParam(), {"vulkan", limit});
  ASSERT_EQ(two.status, 0) << two.err;
  EXPECT_TRUE(two.answer == run_ranks(1, GetParam(), {"vulkan"}).answer);
}

// The second rank's part fits its device no more.
TEST_P(DeviceRanksOnce, SolveBesideARankOnItsCpu) {
  const std::vector<std::string> words = {"vulkan", "second_range=16000"};
  const RankRun run = run_ranks(2, GetParam(), words);
  ASSERT_EQ(run.status, 0) << run.err;
  const std::string ordinary = ordinary_answer(GetParam());
  const double expected = last_cost(ordinary);
  EXPECT_NEAR(last_cost(run.answer), expected, 1e-6 * expected);
  const auto steps = [](const std::string& answer) { return std::ranges::count(answer, '\n'); };
  EXPECT_EQ(steps(run.answer), steps(ordinary));
  const RankRun report = run_ranks(2, GetParam(), {words[0], words[1], "report"});
  EXPECT_NE(report.answer.find("interpreter"), std::string::npos) << report.answer;
  EXPECT_NE(report.answer.find("need a storage buffer range"), std::string::npos) << report.answer;
}

TEST_P(DeviceRanksOnce, RefuseStepsOnManifoldsInShares) {
  const RankRun run = run_ranks(2, "manifold", {"vulkan", "share"});
  EXPECT_NE(run.status, 0);
  EXPECT_NE(run.err.find("linear solver pcg on manifolds is for backend cpu, got vulkan"),
            std::string::npos)
      << run.err;
}

/// The rank (−1: all), the step and the submission at which a device fails.
struct DeviceFailure {
  std::string name, kind;
  int rank = 1, step = 2, submission = 0;
};
class FailingDevice : public testing::TestWithParam<DeviceFailure> {
 protected:
  void SetUp() override {
    const DeviceFacts device = probe_device({});
    if (!device.available || !device.float64) GTEST_SKIP() << "no Vulkan device with float64";
  }
};

TEST_P(FailingDevice, MovesItsRankToItsCpu) {
  const DeviceFailure& f = GetParam();
  const TemporaryDir folder;
  const std::vector<std::string> words = {
      "vulkan", "fail=" + f.kind + ":" + std::to_string(f.rank) + ":" + std::to_string(f.step) +
                    ":" + std::to_string(f.submission) + ":" + (folder.path() / "clock").string()};
  const RankRun run = run_ranks(2, f.name, words);
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_TRUE(std::filesystem::exists(folder.path() / "clock"));
  const std::string ordinary = ordinary_answer(f.name);
  const double expected = last_cost(ordinary);
  EXPECT_NEAR(last_cost(run.answer), expected, 1e-6 * expected);
  const auto steps = [](const std::string& answer) { return std::ranges::count(answer, '\n'); };
  EXPECT_EQ(steps(run.answer), steps(ordinary));
  const RankRun report = run_ranks(2, f.name, {words[0], words[1], "report"});
  const std::string said =
      f.kind == "device_lost" ? "the device was lost" : "ErrorOutOfDeviceMemory";
  const std::size_t first = report.answer.find(said);
  EXPECT_NE(first, std::string::npos) << report.answer;
  EXPECT_EQ(report.answer.find(said, first + 1) != std::string::npos, f.rank < 0) << report.answer;
}

// Between the parts of an iteration, in a linearisation, and at a point that was just accepted.
INSTANTIATE_TEST_SUITE_P(All, FailingDevice,
                         testing::Values(DeviceFailure{"springs", "device_lost", 1, 2, 0},
                                         DeviceFailure{"springs", "device_lost", 0, 1, 3},
                                         DeviceFailure{"springs", "device_lost", -1, 2, 10},
                                         DeviceFailure{"springs", "device_memory", 1, 1, 8},
                                         DeviceFailure{"bounds", "device_memory", 0, 2, 1},
                                         DeviceFailure{"bounds", "device_lost", 1, 1, 21}),
                         [](const auto& failure) {
                           const DeviceFailure& f = failure.param;
                           return f.name + "_" + f.kind + "_" +
                                  (f.rank < 0 ? "all" : std::to_string(f.rank)) + "_" +
                                  std::to_string(f.submission);
                         });

/// Fails while the state of another engine is restored. Only devices whose memory the host does not
/// map submit work for this.
class FailingRestoration : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    const DeviceFacts device = probe_device({});
    if (!device.available || !device.float64) GTEST_SKIP() << "no Vulkan device with float64";
  }
};

TEST_P(FailingRestoration, MovesItsRankToItsCpu) {
  const RankRun run = run_ranks(2, "springs",
                                {"vulkan", "mask=mapped_memory", "restore",
                                 GetParam().empty() ? "" : "restore_fails=" + GetParam()});
  ASSERT_EQ(run.status, 0) << run.err;
  double cost[2] = {}, trial[2] = {}, length[2] = {};
  int iterations[2] = {}, failed[2] = {};
  const char* at = run.answer.c_str();
  for (int k = 0; k < 2; ++k) {
    int read = 0;
    ASSERT_EQ(std::sscanf(at, "cost %lf trial %lf step %lf cg %d\n%n", &cost[k], &trial[k],
                          &length[k], &iterations[k], &read),
              4)
        << run.answer;
    at += read;
  }
  EXPECT_NEAR(cost[1], cost[0], 1e-12 * cost[0]);
  EXPECT_NEAR(trial[1], trial[0], 1e-9 * trial[0]);
  EXPECT_NEAR(length[1], length[0], 1e-9 * length[0]);
  EXPECT_EQ(iterations[1], iterations[0]);
  EXPECT_GT(iterations[0], 10);
  std::istringstream lines(at);
  for (int rank = 0; rank < 2; ++rank) {
    std::string device;
    lines >> failed[rank];
    std::getline(lines, device);
    const bool fails = GetParam().find(":" + std::to_string(rank) + ":") != std::string::npos ||
                       GetParam().find(":-1:") != std::string::npos;
    EXPECT_EQ(failed[rank] > 0, fails) << run.answer;
    EXPECT_EQ(device.find("interpreter") != std::string::npos, fails) << run.answer;
  }
}

INSTANTIATE_TEST_SUITE_P(All, FailingRestoration,
                         testing::Values("", "device_lost:1:0", "device_memory:0:0",
                                         "device_lost:-1:0"));

}  // namespace
}  // namespace topograd::test
