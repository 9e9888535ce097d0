// Ranks that fail, and checkpoints from which other ranks continue.
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
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace topograd::test {
namespace {

namespace fs = std::filesystem;

/// From the failure to the end of mpirun.
constexpr double kLongest = 10;

/// Lines that ranks of ours have printed.
std::size_t own_messages(const std::string& err) {
  std::size_t count = 0;
  for (std::size_t at = err.find("topograd: rank"); at != std::string::npos;
       at = err.find("topograd: rank", at + 1))
    ++count;
  return count;
}

struct Failure {
  std::string kind;
  std::vector<std::string> words;  ///< empty: fail=KIND:1:2:0:...
  std::string expected;
};
class DistributedFailure : public testing::TestWithParam<Failure> {};

TEST_P(DistributedFailure, EndsAllRanksWithAReason) {
  const TemporaryDir folder;
  const std::string clock = folder.path() / "clock";
  std::vector<std::string> words = GetParam().words;
  const bool strikes = words.empty();
  if (strikes) words = {"fail=" + GetParam().kind + ":1:2:0:" + clock};
  const RankRun run = run_ranks(2, "host", words);
  EXPECT_NE(run.status, 0);
  EXPECT_NE(run.err.find(GetParam().expected), std::string::npos) << run.err;
  EXPECT_LE(own_messages(run.err), 1U) << run.err;
  EXPECT_TRUE(run.answer.empty());
  if (strikes) {
    ASSERT_TRUE(fs::exists(clock));
    EXPECT_LT(run.ended - std::stod(read_file(clock)), kLongest) << run.err;
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, DistributedFailure,
    testing::Values(
        Failure{"throw", {}, "topograd: rank 1: the callback has failed"},
        Failure{"memory", {}, "topograd: rank 1: std::bad_alloc"},
        Failure{"lost", {}, "topograd: rank 1: the device is lost"},
        Failure{"residual", {}, "topograd: rank 1: a residual has failed"},
        Failure{"kill", {}, "exited on signal 9"}, Failure{"exit", {}, "Exit code:    3"},
        Failure{"all_throw", {"all_throw"}, "topograd: rank 0: all callbacks have failed"},
        Failure{"precision", {"precision"}, "expected the same precision on all ranks, got f64"},
        Failure{"data", {"data"}, "expected the same start on all ranks, got "},
        Failure{"two_level", {"two_level"}, "expected preconditioner block_jacobi, got two_level"},
        Failure{"petsc_on_devices",
                {"vulkan", "petsc"},
                "PETSc's options are for backend cpu, got vulkan"},
        Failure{"mixed_on_devices",
                {"vulkan", "mixed"},
                "precision mixed is for backend cpu, got vulkan"},
        Failure{"no_checkpoint", {"resume=/none"}, "checkpoint \"/none\" cannot be read"}),
    [](const auto& failure) { return failure.param.kind; });

class DifferentRanks : public testing::TestWithParam<std::pair<std::string, std::string>> {};

TEST_P(DifferentRanks, AreRefusedAtTheStart) {
  const auto& [other, expected] = GetParam();
  const RankRun run = run_ranks(2, "bounds", {"other=" + other});
  EXPECT_NE(run.status, 0);
  EXPECT_NE(run.err.find("topograd: rank 0: distributed: expected the same "), std::string::npos)
      << run.err;
  EXPECT_NE(run.err.find(expected), std::string::npos) << run.err;
  EXPECT_EQ(own_messages(run.err), 1U) << run.err;
}

INSTANTIATE_TEST_SUITE_P(
    All, DifferentRanks,
    testing::Values(
        std::pair(
            "uniform",
            "number 0 of uniforms and losses on all ranks, got 1.5 on rank 0 and 2 on rank 1"),
        std::pair("scale", " on all ranks, got 0.5 on rank 0 and 0.25 on rank 1"),
        std::pair("loss", " of uniforms and losses on all ranks, got 3 on rank 0 and 5 on rank 1"),
        std::pair("tolerance",
                  "absolute_gradient_tolerance on all ranks, got 0 on rank 0 and 0.001 "
                  "on rank 1"),
        std::pair("petsc",
                  "use of PETSc on all ranks, got none on rank 0 and its methods on rank 1"),
        std::pair("resume", "resume on all ranks, got "),
        std::pair("partition", "partition on all ranks, got scotch on rank 0 and contiguous")),
    [](const auto& other) { return other.param.first; });

class DistributedCheckpoint : public testing::TestWithParam<std::string> {};

// One rank more, and one rank less, than wrote the file.
TEST_P(DistributedCheckpoint, AnotherNumberOfRanksContinues) {
  const std::string expected = ordinary_answer(GetParam());
  const TemporaryDir folder;
  const std::string file = folder.path() / "state";
  const RankRun begun = run_ranks(2, GetParam(), {"steps=2", "checkpoint=" + file});
  ASSERT_EQ(begun.status, 0) << begun.err;
  EXPECT_NE(begun.answer, expected);
  for (const int ranks : {1, 3}) {
    const RankRun rest = run_ranks(ranks, GetParam(), {"resume=" + file});
    ASSERT_EQ(rest.status, 0) << rest.err;
    EXPECT_TRUE(rest.answer == expected) << ranks << " ranks; expected\n"
                                         << expected.substr(0, 400) << "got\n"
                                         << rest.answer.substr(0, 400);
  }
}

INSTANTIATE_TEST_SUITE_P(All, DistributedCheckpoint,
                         testing::Values("springs", "springs_mixed", "springs_f32", "bounds",
                                         "manifold", "energies", "bundle", "host"),
                         [](const auto& name) { return name.param; });

TEST(DistributedCheckpoint, TheOrdinarySolveAndRanksContinueEachOther) {
  const std::string expected = ordinary_answer("springs");
  const TemporaryDir folder;
  const std::string file = folder.path() / "state";
  ASSERT_EQ(run_ranks(2, "springs", {"steps=4", "checkpoint=" + file}).status, 0);
  const auto ordinary = [&](int steps) {
    Case of = make_case("springs");
    of.options.backend = Backend::cpu;
    of.options.deterministic = true;
    of.options.resume = of.options.checkpoint.file = file;
    if (steps > 0) of.options.max_iterations = steps;
    const Summary summary = solve(*of.problem, of.options);
    EXPECT_GE(summary.resumed_step, 4);
    return exact_text(of, summary);
  };
  ordinary(7);
  const RankRun rest = run_ranks(2, "springs", {"resume=" + file});
  ASSERT_EQ(rest.status, 0) << rest.err;
  EXPECT_TRUE(rest.answer == expected);
  EXPECT_TRUE(ordinary(0) == expected);
}

/// TOPOGRAD_RANK_FAILURES=100 asks for more than the few of CI.
int failures_wanted() {
  const char* const asked = std::getenv("TOPOGRAD_RANK_FAILURES");
  return asked == nullptr ? 6 : std::atoi(asked);
}

/// One failure at a random time of a solve that writes checkpoints.
struct Strike {
  std::string name, kind;
  int ranks = 2, rank = 0, step = 0, ranks_after = 1;
  double share = 0;

  bool on_device() const { return kind.starts_with("device_"); }
};

Strike random_strike(std::mt19937& random, const std::map<std::string, int>& steps_of,
                     bool with_device) {
  const auto below = [&](std::size_t n) { return static_cast<int>(random() % n); };
  static const std::vector<std::string> names = {"springs", "bounds", "bundle", "host", "arap"};
  static const std::vector<std::string> kinds = {"kill", "kill", "throw", "memory", "lost", "exit"};
  Strike strike;
  strike.name = names[static_cast<std::size_t>(below(names.size()))];
  strike.kind = kinds[static_cast<std::size_t>(below(kinds.size()))];
  if (strike.name == "host" && below(2) == 0) strike.kind = "residual";
  strike.ranks = 2 + below(2);
  strike.rank = below(static_cast<std::size_t>(strike.ranks));
  strike.step = below(static_cast<std::size_t>(std::max(1, steps_of.at(strike.name) - 2)));
  strike.ranks_after = 1 + below(3);
  strike.share = static_cast<double>(below(1000)) / 1000;
  if (with_device && strike.name != "host" && below(5) == 0) {
    strike.kind = below(2) == 0 ? "device_lost" : "device_memory";
    strike.share = below(40);  // number of the submission
  }
  return strike;
}

int steps_in(const std::string& answer) {
  int steps = 0;
  for (std::size_t at = answer.find("step "); at != std::string::npos;
       at = answer.find("\nstep ", at + 1))
    ++steps;
  return steps - 1;  // the start is one
}

std::string text(const Strike& s) {
  return s.name + ", " + s.kind + " of rank " + std::to_string(s.rank) + " of " +
         std::to_string(s.ranks) + " after step " + std::to_string(s.step) + " + " +
         std::to_string(s.share) + ", then " + std::to_string(s.ranks_after);
}

/// A run that failed has to say this.
std::string expected_message(const Strike& s) {
  const std::string rank = std::to_string(s.rank);
  const std::string line = "topograd: rank " + rank + ": ";
  if (s.kind == "kill") return "process rank " + rank + " with PID";
  if (s.kind == "exit") return "Exit code:    3";
  if (s.kind == "memory") return line + "std::bad_alloc";
  if (s.kind == "lost") return line + "the device is lost";
  return line + (s.kind == "residual" ? "a residual has failed" : "the callback has failed");
}

TEST(DistributedFailures, EachEndsInSecondsAndItsCheckpointGivesTheSameAnswer) {
  std::map<std::string, std::string> answers;
  std::map<std::string, int> steps, struck;
  for (const char* name : {"springs", "bounds", "bundle", "host", "arap"}) {
    answers[name] = ordinary_answer(name);
    steps[name] = steps_in(answers[name]);
  }
  std::mt19937 random(20240601);
  const DeviceFacts device = probe_device({});
  const bool with_device = device.available && device.float64;
  double longest = 0, sum = 0;
  int missed = 0, without_file = 0;
  const int wanted = failures_wanted();
  for (int done = 0; done < wanted && missed <= 2 * wanted;) {
    const Strike strike = random_strike(random, steps, with_device);
    SCOPED_TRACE(text(strike));
    const TemporaryDir folder;
    const std::string file = folder.path() / "state", clock = folder.path() / "clock";
    char share[16];
    std::snprintf(share, sizeof share, "%.3f", strike.share);
    std::vector<std::string> words = {
        "checkpoint=" + file, "fail=" + strike.kind + ":" + std::to_string(strike.rank) + ":" +
                                  std::to_string(strike.step) + ":" + share + ":" + clock};
    if (strike.on_device()) words.emplace_back("vulkan");
    const RankRun run = run_ranks(strike.ranks, strike.name, words);
    if (strike.on_device()) {  // its rank goes on on its CPU
      ASSERT_EQ(run.status, 0) << run.err;
      EXPECT_TRUE(fs::exists(clock));
      const double expected = last_cost(answers[strike.name]);
      EXPECT_NEAR(last_cost(run.answer), expected, 1e-5 * expected);
      ++done;
      ++struck[strike.kind];
      continue;
    }
    if (run.status == 0) {  // it was faster than its failure
      ++missed;
      EXPECT_TRUE(run.answer == answers[strike.name]);
      continue;
    }
    ++done;
    ++struck[strike.kind];
    EXPECT_NE(run.err.find(expected_message(strike)), std::string::npos) << run.err;
    EXPECT_EQ(own_messages(run.err), strike.kind == "kill" || strike.kind == "exit" ? 0U : 1U)
        << run.err;
    ASSERT_TRUE(fs::exists(clock)) << run.err;
    const double seconds = run.ended - std::stod(read_file(clock));
    EXPECT_LT(seconds, kLongest) << run.err;
    longest = std::max(longest, seconds);
    sum += seconds;
    const bool there = fs::exists(file);
    without_file += there ? 0 : 1;
    EXPECT_TRUE(there || strike.step == 0);
    const RankRun rest =
        run_ranks(strike.ranks_after, strike.name,
                  there ? std::vector{"resume=" + file} : std::vector<std::string>{});
    ASSERT_EQ(rest.status, 0) << rest.err;
    EXPECT_TRUE(rest.answer == answers[strike.name]);
  }
  int all = 0;
  std::string kinds;
  for (const auto& [kind, count] : struck) {
    all += count;
    kinds += " " + kind + " " + std::to_string(count);
  }
  EXPECT_EQ(all, wanted);
  std::printf(
      "%d failures:%s; from failure to end: mean %.2f s, longest %.2f s; %d before the "
      "first checkpoint; %d more solves ended before their failure\n",
      all, kinds.c_str(), sum / std::max(1, all), longest, without_file, missed);
}

}  // namespace
}  // namespace topograd::test
