// Checkpoints: the bits of resumed solves, files of other solves, damaged files, full disks.
#include "../../../frontend/value/math.hpp"
#include "../../../ir/error.hpp"
#include "../../../ir/machine/platform.hpp"
#include "../../../solver/checkpoint/checkpoints.hpp"
#include "../../../solver/solve.hpp"
#include "../../support/paths.hpp"
#include "checkpoint_cases.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <span>
#include <string>
#include <vector>

namespace topograd {
namespace {

namespace fs = std::filesystem;

TEST(Checkpoint, ResumedSolvesHaveTheSameBits) {
  for (const test::CheckpointCase& row : test::checkpoint_cases())
    test::expect_resumes(row, Backend::cpu);
}

/// A valley that takes some twenty steps. `weight` is data of its residuals.
struct Valley {
  explicit Valley(double weight = 1, int size = 4) {
    for (int k = 0; k < size; ++k) x.push_back(k % 2 == 0 ? -1.2 : 1);
    p = problem.add_parameters(x);
    for (std::size_t k = 0; k + 1 < x.size(); ++k) {
      problem.add_residual({10 * (p[k + 1] - p[k] * p[k])}, {.label = "valley"});
      problem.add_residual({weight * (1.0 - p[k])}, {.label = "ends"});
    }
  }
  std::vector<double> x;
  Problem problem;
  Parameters p;
};

SolverOptions few_steps() {
  SolverOptions options;
  options.backend = Backend::cpu;
  options.deterministic = true;
  options.max_iterations = 6;
  return options;
}

/// The message that resuming from `path` throws; "" if it solves.
std::string refusal(Problem& problem, SolverOptions options, const std::string& path) {
  options.resume = path;
  try {
    solve(problem, options);
    return "";
  } catch (const Error& error) {
    return std::string(name(error.code())) + ": " + error.what();
  }
}

class CheckpointFile : public testing::Test {
 protected:
  /// The checkpoint of six steps.
  void SetUp() override {
    Valley valley;
    SolverOptions options = few_steps();
    options.checkpoint.file = path_;
    const Summary summary = solve(valley.problem, options);
    EXPECT_EQ(summary.num_iterations(), 6);
    EXPECT_EQ(summary.checkpoint_note, "2 written to " + path_ + ", the last after step 6");
  }

  test::TemporaryDir folder_;
  const std::string path_ = folder_.path() / "state";
};

TEST_F(CheckpointFile, AnotherSolveIsRefusedWithWhatDiffers) {
  const auto options = [](const std::function<void(SolverOptions&)>& change) {
    SolverOptions out = few_steps();
    change(out);
    return out;
  };
  const struct {
    double weight;
    int size;
    SolverOptions options;
    std::string why;
  } rows[] = {
      {1, 4, options([](SolverOptions& o) { o.precision = Precision::f32; }),
       "the precision is f32 here, f64 in the checkpoint"},
      {1, 4, options([](SolverOptions& o) { o.max_trust_region_radius = 10; }),
       "the max_trust_region_radius is 10 here, 1e+16 in the checkpoint"},
      {1, 4, options([](SolverOptions& o) { o.linear_solver = LinearSolver::pcg; }),
       "the linear solver is pcg here, cholesky in the checkpoint"},
      {2, 4, few_steps(), "different data of \"ends\" (topology 1)"},
      {1, 5, few_steps(),
       "the number of unknowns and constants is 5 here, 4 in the checkpoint; the number of "
       "residual rows is 8 here, 6 in the checkpoint; different layout of the parameters; and 4 "
       "more differ"},
  };
  for (const auto& row : rows) {
    Valley valley(row.weight, row.size);
    const std::vector<double> start = valley.x;
    EXPECT_EQ(refusal(valley.problem, row.options, path_),
              "invalid_argument: checkpoint \"" + path_ + "\": it is of another solve: " + row.why);
    EXPECT_EQ(valley.x, start);
  }
  Valley fixed;
  fixed.problem.set_constant(fixed.p, 0);
  EXPECT_NE(refusal(fixed.problem, few_steps(), path_).find("different fixed scalars"),
            std::string::npos);
}

TEST_F(CheckpointFile, LimitsAndTolerancesMayDiffer) {
  SolverOptions options = few_steps();
  options.max_iterations = 100;
  options.threads = 1;
  Valley whole, resumed;
  const Summary all = solve(whole.problem, options);
  ASSERT_EQ(all.termination, Termination::CONVERGENCE);
  options.resume = options.checkpoint.file = path_;
  const Summary rest = solve(resumed.problem, options);
  EXPECT_EQ(test::first_difference(all, whole.x, rest, resumed.x), "");

  // A solve that has converged stays so, unless it is asked for more.
  Valley same, more;
  const Summary again = solve(same.problem, options);
  EXPECT_EQ(test::first_difference(all, whole.x, again, same.x), "");
  options.function_tolerance = options.parameter_tolerance = options.gradient_tolerance = 0;
  EXPECT_GT(solve(more.problem, options).num_iterations(), all.num_iterations());
}

TEST_F(CheckpointFile, DamagedFilesAreRefused) {
  const std::string file = test::read_file(path_);
  const std::string bad = folder_.path() / "bad";
  const auto refused = [&](const std::string& text) {
    std::ofstream(bad, std::ios::binary) << text;
    Valley valley;
    const std::vector<double> start = valley.x;
    const std::string why = refusal(valley.problem, few_steps(), bad);
    EXPECT_EQ(valley.x, start);
    EXPECT_TRUE(why.starts_with("parse: checkpoint \"" + bad + "\": ")) << why;
    return why.substr(why.find("\": ") + 3);
  };
  EXPECT_EQ(refused(""), "it is not a checkpoint of Topograd");
  EXPECT_EQ(refused("TGCHECK\n"), "its header is cut off");
  EXPECT_EQ(refused(file.substr(0, file.size() - 1)),
            "it has " + std::to_string(file.size() - 41) +
                " bytes after its header, which announces " + std::to_string(file.size() - 40));
  for (const std::size_t at : {std::size_t{41}, file.size() / 2, file.size() - 1}) {
    std::string flipped = file;
    flipped[at] = static_cast<char>(flipped[at] ^ 4);
    EXPECT_EQ(refused(flipped), "its checksum does not match its contents");
  }
  std::string later = file;
  later[8] = 2;
  EXPECT_EQ(refused(later), "its format has version 2, this program reads 1");

  // With a right checksum, too, nothing is believed: every byte of the state in turn.
  const auto bytes = std::as_bytes(std::span(file));
  for (std::size_t at = 40; at < file.size(); at += 3) {
    std::vector<std::byte> state(bytes.begin() + 40, bytes.end());
    state[at - 40] ^= std::byte{0x81};
    const std::vector<std::byte> sealed = seal_checkpoint(state);
    std::ofstream(bad, std::ios::binary)
        .write(reinterpret_cast<const char*>(sealed.data()),
               static_cast<std::streamsize>(sealed.size()));
    Valley valley;
    const std::string why = refusal(valley.problem, few_steps(), bad);
    EXPECT_TRUE(why.empty() || why.find(bad) != std::string::npos || why.starts_with("non_finite"))
        << at << ": " << why;
  }
  Valley valley;
  EXPECT_EQ(refusal(valley.problem, few_steps(), folder_.path() / "none"),
            "file: checkpoint \"" + (folder_.path() / "none").string() +
                "\" cannot be read: No such file or directory");
}

TEST_F(CheckpointFile, AFullDiskKeepsTheFormerOne) {
  const std::string before = test::read_file(path_);
  // The limit lasts for the life of a process.
  const auto in_child = [&](std::uint64_t limit, const std::function<std::string()>& work) {
    std::string heard;
    const platform::ChildEnd end = platform::run_child(
        [&](const std::function<void(const std::string&)>& say) {
          platform::limit_file_size(limit);
          say(work());
        },
        [&](const std::string& line) { heard = line; }, 60);
    EXPECT_TRUE(end.well());
    return heard;
  };
  SolverOptions options = few_steps();
  options.checkpoint = {.file = path_, .every_seconds = 0};
  const std::string why = in_child(100, [&] {
    Valley valley;
    return refusal(valley.problem, options, "");
  });
  EXPECT_EQ(why, "file: checkpoint \"" + path_ + "\": cannot be written: File too large");
  EXPECT_EQ(test::read_file(path_), before);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_.path()), fs::directory_iterator()), 1);

  // A disk that fills up later is a warning.
  const std::string warning = in_child(1 << 20, [&] {
    Valley valley;
    SolverOptions late = options;
    late.callback = [](const IterationSummary& step) {
      if (step.iteration == 2) platform::limit_file_size(50);
      return CallbackReturn::SOLVER_CONTINUE;
    };
    return solve(valley.problem, late).checkpoint_warning;
  });
  EXPECT_EQ(warning, "checkpoint \"" + path_ +
                         "\" cannot be written: File too large; 1 written to " + path_ +
                         ", the last after step 0");
}

TEST(Checkpoint, AProgramThatIsStartedAgainGoesOn) {
  const test::TemporaryDir folder;
  const std::string path = folder.path() / "solve.state";
  const auto program = [&](int most_steps) {
    Valley valley;
    SolverOptions options = few_steps();
    options.max_iterations = most_steps;
    options.checkpoint = {.file = path, .every_seconds = 300};
    if (std::filesystem::exists(path)) options.resume = path;
    return solve(valley.problem, options);
  };
  EXPECT_EQ(program(3).resumed_step, -1);
  EXPECT_EQ(program(5).resumed_step, 3);
  const Summary end = program(100);
  EXPECT_EQ(end.resumed_step, 5);
  EXPECT_EQ(end.termination, Termination::CONVERGENCE);
}

TEST_F(CheckpointFile, AFolderThatIsNotThereIsAnErrorAtOnce) {
  Valley valley;
  const std::vector<double> start = valley.x;
  SolverOptions options = few_steps();
  options.checkpoint.file = folder_.path() / "none" / "state";
  EXPECT_EQ(refusal(valley.problem, options, ""),
            "file: checkpoint \"" + options.checkpoint.file +
                "\": cannot be written: No such file or directory");
  EXPECT_EQ(valley.x, start);
}

TEST_F(CheckpointFile, ACallbackThatStopsLeavesItsPoint) {
  Valley whole, stopped, resumed;
  SolverOptions options = few_steps();
  options.max_iterations = 100;
  const Summary all = solve(whole.problem, options);
  SolverOptions first = options;
  first.checkpoint.file = path_;
  first.callback = [](const IterationSummary& step) {
    return step.iteration == 4 ? CallbackReturn::SOLVER_TERMINATE_SUCCESSFULLY
                               : CallbackReturn::SOLVER_CONTINUE;
  };
  EXPECT_EQ(solve(stopped.problem, first).num_iterations(), 4);
  options.resume = path_;
  const Summary rest = solve(resumed.problem, options);
  EXPECT_EQ(rest.resumed_step, 4);
  EXPECT_EQ(test::first_difference(all, whole.x, rest, resumed.x), "");
}

}  // namespace
}  // namespace topograd
