// The end of a solve for scripts: limits, signals, exit status, and complete files.
#include "../support/paths.hpp"
#include "run_command.hpp"

#include <gtest/gtest.h>

#include <sys/wait.h>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>

namespace topograd::test {
namespace {

namespace fs = std::filesystem;

/// Runs until it is stopped: steps of a fixed size never meet a tolerance of 0.
constexpr const char* kEndless =
    "solve springs --width 60 --backend cpu --method adam --max-iterations 2000000000 "
    "--tolerance 0";

TEST(CommandEnd, ALimitIsOneLineAlsoWhenQuiet) {
  const std::string line =
      "topograd: warning: NO_CONVERGENCE: maximum number of iterations reached: 1\n";
  for (const char* quiet : {"", " --quiet"}) {
    const std::string solve =
        std::string("solve springs --width 10 --backend cpu --max-iterations 1") + quiet;
    const CommandResult plain = topograd(solve);
    EXPECT_EQ(plain.status, 0);
    EXPECT_EQ(plain.err, line);
    const CommandResult required = topograd(solve + " --require-convergence");
    EXPECT_EQ(required.status, 1);
    EXPECT_EQ(required.err, line);
  }
  const CommandResult converged =
      topograd("solve arap --icosphere 1 --backend cpu --quiet --require-convergence");
  EXPECT_EQ(converged.status, 0);
  EXPECT_EQ(converged.err, "");
}

TEST(CommandEnd, ASetSaysHowManyRunsDidNotConverge) {
  const std::string solve =
      "solve mgh --set rosenbrock --backend cpu --max-iterations 1 --quiet --json -";
  const CommandResult plain = topograd(solve);
  EXPECT_EQ(plain.status, 0);
  EXPECT_EQ(plain.err,
            "topograd: warning: 3 of 3 runs ended without convergence, the first is rosenbrock "
            "from start 1: NO_CONVERGENCE\n");
  EXPECT_EQ(topograd(solve + " --require-convergence").status, 1);
}

TEST(CommandEnd, TheFirstSignalEndsASolveAtItsBestPoint) {
  const struct {
    const char* signal;
    int status;
  } rows[] = {{"INT", 130}, {"TERM", 143}};
  for (const auto& row : rows) {
    SCOPED_TRACE(row.signal);
    const TemporaryDir folder;
    const std::string base = folder.path() / "answer";
    const CommandResult result =
        topograd(std::string(kEndless) + " --quiet --require-convergence --json '" + base +
                     ".json' --report '" + base + ".html' --metrics '" + base + ".prom' --trace '" +
                     base + ".trace' --plan-out '" + base + ".plan'",
                 std::string("timeout --preserve-status -s ") + row.signal + " 2");
    EXPECT_EQ(result.status, row.status);
    EXPECT_EQ(result.err, std::string("topograd: warning: interrupted by SIG") + row.signal +
                              ": outputs hold the best point so far\n");
    const nlohmann::json report = read_json(base + ".json");
    EXPECT_EQ(report["termination"], "USER_SUCCESS");
    EXPECT_EQ(report["message"], std::string("interrupted by SIG") + row.signal);
    EXPECT_LT(report["final_cost"].get<double>(), report["initial_cost"].get<double>());
    for (const char* end : {".html", ".prom", ".trace", ".plan"})
      EXPECT_GT(fs::file_size(base + end), 0u) << end;
  }
}

TEST(CommandEnd, SetsEndAfterTheRunInWhichASignalComes) {
  const TemporaryDir folder;
  const std::string json = folder.path() / "report.json";
  const CommandResult result = topograd(
      "solve mgh --backend cpu --method adam --max-iterations 2000000000 --tolerance 0 "
      "--quiet --json '" +
          json + "'",
      "timeout --preserve-status -s INT 1.5");
  EXPECT_EQ(result.status, 130);
  const std::size_t runs = read_json(json)["runs"].size();
  EXPECT_GE(runs, 1u);
  EXPECT_LT(runs, 57u) << "all of them";
}

TEST(CommandEnd, ASignalEndsMeasurementsAndChecksWithAReport) {
  const struct {
    const char *arguments, *report, *has;
  } rows[] = {
      {"bench springs --width 300 --backend cpu --no-check --no-peers --samples 1000", "measured",
       "initial_cost"},
      {"bench ops --backend cpu", "measured", "rows"},
      {"check random --backend cpu --count 100000000", "checked", "programs"},
      {"check soak --backend cpu --seconds 1000", "checked", "rounds"},
      {"check view --backend cpu --seconds 1000 --icosphere 1", "checked", "solves"},
      {"check ops --backend cpu --count 100000", "checked", "results"},
      {"check repeat --backend cpu --runs 100 --processes 100", "checked", "results"},
  };
  for (const auto& row : rows) {
    SCOPED_TRACE(row.arguments);
    const TemporaryDir folder;
    const std::string json = folder.path() / "report.json";
    const CommandResult result = topograd(row.arguments + (" --json '" + json + "'"),
                                          "timeout --preserve-status -s INT -k 50 1.5");
    EXPECT_EQ(result.status, 130);
    EXPECT_EQ(result.err, "topograd: warning: interrupted by SIGINT: the report has what was " +
                              std::string(row.report) + " so far\n");
    EXPECT_NE(result.out, "");
    const nlohmann::json report = read_json(json);
    EXPECT_EQ(report["interrupted"], "interrupted by SIGINT");
    EXPECT_TRUE(report.contains(row.has));
  }
}

TEST(CommandEnd, StandardOutputThatIsFullIsAnError) {
  for (const char* arguments : {"solve springs --width 4 --backend cpu", "info", "--help",
                                "solve springs --width 4 --backend cpu --quiet --json -"}) {
    const TemporaryDir folder;
    const std::string errors = folder.path() / "errors";
    const int ended = std::system(("'" + (program_dir() / "topograd").string() + "' " + arguments +
                                   " >/dev/full 2>'" + errors + "'")
                                      .c_str());
    EXPECT_EQ(WEXITSTATUS(ended), 2) << arguments;
    EXPECT_TRUE(read_file(errors).ends_with("topograd: standard output: cannot be written\n"))
        << read_file(errors);
  }
}

TEST(CommandEnd, AFileBeyondItsLimitLeavesTheOldOne) {
  const TemporaryDir folder;
  const std::string json = folder.path() / "report.json";
  std::ofstream(json) << "old";
  const CommandResult result = topograd(
      "solve springs --width 30 --backend cpu --quiet --json '" + json + "'", "ulimit -f 1;");
  EXPECT_EQ(result.status, 2);
  EXPECT_TRUE(result.err.ends_with("topograd: " + json + ": cannot be written\n")) << result.err;
  EXPECT_EQ(read_file(json), "old");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()), 1);
}

TEST(CommandEnd, ShortAddressSpaceIsAnErrorAndNotAWait) {
  // A factorisation by OpenBLAS would request its buffer again and again if it gets none; the
  // factor itself has 200 MB.
  const CommandResult result =
      topograd("solve springs --width 250 --backend cpu --quiet --linear cholesky --threads 1",
               "ulimit -v 500000; timeout -k 1 60");
  EXPECT_EQ(result.status, 2);
  EXPECT_NE(result.err.find("out of host memory"), std::string::npos) << result.err;
}

TEST(CommandEnd, TheSecondSignalEndsAtOnce) {
  // The problem file is a pipe that nobody writes to: the first signal finds no step to end after.
  const TemporaryDir folder;
  const std::string pipe = folder.path() / "problem.json", out = folder.path() / "out.json";
  const std::string run = "mkfifo '" + pipe + "'; '" + (program_dir() / "topograd").string() +
                          "' solve '" + pipe + "' --json '" + out +
                          "' & p=$!; sleep 1; kill -INT $p; sleep 0.5; kill -0 $p || exit 9; "
                          "kill -TERM $p; wait $p";
  const std::string script = folder.path() / "run.sh";
  std::ofstream(script) << run << "\n";
  const int ended = std::system(("sh '" + script + "' 2>/dev/null").c_str());
  EXPECT_EQ(WEXITSTATUS(ended), 143);
  EXPECT_FALSE(fs::exists(out));
}

TEST(CommandEnd, KilledSolvesGoOnFromTheirCheckpoints) {
  const char* const solves[] = {
      "solve arap --icosphere 4 --linear pcg --tolerance 1e-12 --max-iterations 30",
      "solve springs --width 50 --method adam --tolerance 0 --max-iterations 2000"};
  std::mt19937 random(27);
  std::uniform_real_distribution<double> seconds(0.15, 0.8);
  for (const std::string solve : solves) {
    SCOPED_TRACE(solve);
    const TemporaryDir folder;
    const auto file = [&](const char* name) { return "'" + (folder.path() / name).string() + "'"; };
    const std::string run = solve + " --backend cpu --deterministic --quiet --json ";
    ASSERT_EQ(topograd(run + file("whole")).status, 0);
    const nlohmann::json whole = read_json(folder.path() / "whole");

    const std::string saved = " --checkpoint-every 0 --checkpoint " + file("state");
    int killed = 0, interrupted = 0, status = -1;
    for (int tries = 0; status != 0 && tries < 200; ++tries) {
      const bool begun = fs::exists(folder.path() / "state");
      const char* const signal = tries % 3 == 2 ? "INT" : "KILL";
      status = topograd(run + file("pieces") + saved + (begun ? " --resume " + file("state") : ""),
                        "timeout --preserve-status -s " + std::string(signal) + " " +
                            std::to_string(seconds(random)))
                   .status;
      killed += status == 137 ? 1 : 0;
      interrupted += status == 130 ? 1 : 0;
      ASSERT_TRUE(status == 0 || status == 137 || status == 130) << status;
    }
    ASSERT_EQ(status, 0);
    EXPECT_GT(killed, 0);
    const nlohmann::json pieces = read_json(folder.path() / "pieces");
    EXPECT_GT(pieces["resumed_step"], 0) << interrupted;
    for (const char* key : {"termination", "message", "initial_cost", "final_cost", "iterations",
                            "successful_steps", "linear_iterations"})
      EXPECT_EQ(pieces[key], whole[key]) << key;
    ASSERT_EQ(pieces["history"].size(), whole["history"].size());
    for (std::size_t k = 0; k < whole["history"].size(); ++k)
      EXPECT_EQ(pieces["history"][k]["cost"], whole["history"][k]["cost"]) << k;
  }
}

TEST(CommandEnd, CheckpointsAreOfOneProblem) {
  const TemporaryDir folder;
  const std::string state = folder.path() / "state";
  const std::string run = "solve springs --width 6 --backend cpu --quiet ";
  EXPECT_EQ(topograd(run + "--checkpoint '" + state + "'").status, 0);
  EXPECT_EQ(topograd(run + "--resume '" + state + "'").status, 0);
  const CommandResult other = topograd(run + "--method dogleg --resume '" + state + "'");
  EXPECT_EQ(other.status, 2);
  EXPECT_EQ(other.err, "topograd: checkpoint \"" + state +
                           "\": it is of another solve: the method is dogleg here, "
                           "levenberg_marquardt in the checkpoint\n");
  EXPECT_EQ(topograd("solve mgh --set rosenbrock --resume '" + state + "'").err,
            "topograd: mgh: --checkpoint and --resume expect a problem, not a set of them\n");
  EXPECT_EQ(topograd(run + "--checkpoint-every 5").err,
            "topograd: --checkpoint-every expects --checkpoint FILE\n");
}

TEST(CommandEnd, FilesAreReplacedAsAWhole) {
  const TemporaryDir folder;
  const fs::path file = folder.path() / "report.json", link = folder.path() / "link.json",
                 kept = folder.path() / "kept.json";
  std::ofstream(file) << "old";
  fs::create_hard_link(file, kept);  // detects overwriting in place
  fs::create_symlink(file, link);
  fs::permissions(file, fs::perms::owner_read | fs::perms::owner_write | fs::perms::group_read);
  const std::string solve = "solve springs --width 4 --backend cpu --quiet --json ";
  EXPECT_EQ(topograd(solve + "'" + link.string() + "'").status, 0);
  EXPECT_EQ(read_file(kept), "old");
  EXPECT_TRUE(fs::is_symlink(link));
  EXPECT_TRUE(read_json(file).contains("termination"));
  EXPECT_EQ(fs::status(file).permissions(),
            fs::perms::owner_read | fs::perms::owner_write | fs::perms::group_read);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()), 3)
      << "a temporary file is left";
  EXPECT_EQ(topograd(solve + "/dev/null").status, 0);
  EXPECT_EQ(topograd(solve + "/dev/full").status, 2);
  const fs::path bench = folder.path() / "bench.json";
  std::ofstream(bench) << "old";
  fs::create_hard_link(bench, folder.path() / "bench.old");
  EXPECT_EQ(
      topograd("bench springs --width 4 --backend cpu --json '" + bench.string() + "'").status, 0);
  EXPECT_EQ(read_file(folder.path() / "bench.old"), "old");
}

}  // namespace
}  // namespace topograd::test
