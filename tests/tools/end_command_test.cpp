// The end of a solve for scripts: limits, signals, exit status, and complete files.
#include "../support/paths.hpp"
#include "run_command.hpp"

#include <gtest/gtest.h>

#include <sys/stat.h>
#include <sys/wait.h>
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <random>
#include <string>
#include <vector>

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

/// The exit status of a background job that gets signals; 9 if it does not live until the last one.
int signalled(const TemporaryDir& folder, const std::string& arguments,
              const std::vector<std::string>& signals) {
  std::string run =
      "'" + (program_dir() / "topograd").string() + "' " + arguments + " & p=$!; sleep 1; ";
  for (const std::string& signal : signals)
    run += "kill -0 $p || exit 9; kill -" + signal + " $p; sleep 0.5; ";
  const std::string script = folder.path() / "run.sh";
  std::ofstream(script) << run << "wait $p\n";
  return WEXITSTATUS(std::system(("sh '" + script + "' 2>/dev/null").c_str()));
}

TEST(CommandEnd, TheFirstSignalEndsAReadThatBlocks) {
  for (const char* arguments :
       {"solve FIFO.json --json OUT", "solve bal FIFO.json --json OUT",
        "bench FIFO.json --json OUT", "view FIFO.json --json OUT", "dump FIFO.json --out OUT"}) {
    const TemporaryDir folder;
    std::string run = arguments;
    run.replace(run.find("FIFO"), 4, folder.path() / "pipe");
    run.replace(run.find("OUT"), 3, folder.path() / "out.json");
    const std::string pipe = folder.path() / "pipe.json";
    ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
    EXPECT_EQ(signalled(folder, run, {"TERM"}), 143) << arguments;
    EXPECT_FALSE(fs::exists(folder.path() / "out.json"));
  }
}

TEST(CommandEnd, TheSecondSignalEndsAtOnce) {
  // The report goes to a pipe that nobody reads: the first signal ends the solve, but not the
  // command.
  const TemporaryDir folder;
  const std::string pipe = folder.path() / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(signalled(folder, std::string(kEndless) + " --json '" + pipe + "'", {"INT", "TERM"}),
            143);
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

/// A folder with copies of the samples' files, and links to one of them.
void copy_inputs(const fs::path& folder) {
  for (const char* name :
       {"curve_fit.json", "decay.json", "decay.csv", "spot.obj", "scene.txt", "ranges.g2o"})
    fs::copy_file(source_dir() / "samples/data" / name, folder / name);
  std::ofstream(folder / "drag.json") << R"([{"at": 0, "handle": 0, "to": [0, 0, 1]}])";
  fs::create_symlink("curve_fit.json", folder / "link.json");
  fs::create_hard_link(folder / "curve_fit.json", folder / "hard.json");
  fs::create_symlink("later.json", folder / "dangling.json");
}

TEST(CommandEnd, NoOutputOverwritesAnInputOrAnotherOutput) {
  const TemporaryDir folder;
  copy_inputs(folder.path());
  const std::string cd = "cd '" + folder.path().string() + "';";
  const std::string quiet = " --backend cpu --quiet --max-iterations 1";
  ASSERT_EQ(topograd("solve curve_fit.json --checkpoint state --plan-out plan" + quiet, cd).status,
            0);
  const struct {
    std::string arguments, file, other;  ///< the option's other file; empty: `file`
  } rows[] = {
      {"solve curve_fit.json --json", "curve_fit.json", ""},
      {"solve curve_fit.json --report", "curve_fit.json", ""},
      {"solve curve_fit.json --metrics", "curve_fit.json", ""},
      {"solve curve_fit.json --trace", "curve_fit.json", ""},
      {"solve curve_fit.json --training-data", "curve_fit.json", ""},
      {"solve curve_fit.json --checkpoint", "curve_fit.json", ""},
      {"solve curve_fit.json --plan-out", "curve_fit.json", ""},
      {"solve curve_fit.json --json", "link.json", "curve_fit.json"},
      {"solve curve_fit.json --json", "hard.json", "curve_fit.json"},
      {"solve curve_fit.json --json",
       "./../" + folder.path().filename().string() + "/curve_fit.json", "curve_fit.json"},
      {"solve link.json --json", "curve_fit.json", "link.json"},
      {"solve decay.json --json", "decay.csv", ""},
      {"solve curve_fit.json --plan plan --json", "plan", ""},
      {"solve curve_fit.json --plan plan --plan-out", "plan", ""},
      {"solve curve_fit.json --resume state --json", "state", ""},
      {"solve arap --mesh spot.obj --out", "spot.obj", ""},
      {"solve arap --mesh spot.obj --json", "spot.obj", ""},
      {"solve bal scene.txt --out", "scene.txt", ""},
      {"solve pose-graph ranges.g2o --skip-unknown --out", "ranges.g2o", ""},
      {"solve curve_fit.json --json a --metrics", "a", "--json"},
      {"solve curve_fit.json --json a --metrics", "./a", "--json"},
      {"solve curve_fit.json --json later.json --metrics", "dangling.json", "--json"},
      {"solve curve_fit.json --json - --metrics", "-", "--json"},
      {"solve arap --icosphere 0 --out a.obj --report", "a.png", "--out"},
  };
  const auto contents = [&] {
    std::map<std::string, std::string> all;
    for (const fs::directory_entry& file : fs::directory_iterator(folder.path()))
      all[file.path().filename()] = fs::exists(file) ? read_file(file.path()) : "";
    return all;
  };
  const auto before = contents();
  for (const auto& row : rows) {
    const CommandResult result = topograd(row.arguments + " " + row.file + quiet, cd);
    EXPECT_EQ(result.status, 2) << row.arguments;
    const std::string& other = row.other.empty() ? row.file : row.other;
    EXPECT_NE(result.err.find(": expected another file than " + other + " has, got " + row.file),
              std::string::npos)
        << row.arguments << ": " << result.err;
    EXPECT_EQ(contents(), before) << row.arguments;
  }
  EXPECT_NE(topograd("view arap --icosphere 0 --bench 0.01 --script drag.json --json drag.json", cd)
                .err.find("expected another file than drag.json has"),
            std::string::npos);
  EXPECT_NE(topograd("dump curve_fit.json --out curve_fit.json", cd).err.find("--out: expected"),
            std::string::npos);
  EXPECT_EQ(contents(), before);
  // What is not the same file.
  EXPECT_EQ(topograd("solve curve_fit.json --resume state --checkpoint state" + quiet, cd).status,
            0);
  EXPECT_EQ(
      topograd("solve curve_fit.json --json /dev/null --metrics /dev/null" + quiet, cd).status, 0);
  // A link to a file that is not there yet stays a link.
  EXPECT_EQ(topograd("solve curve_fit.json --json dangling.json" + quiet, cd).status, 0);
  EXPECT_TRUE(fs::is_symlink(folder.path() / "dangling.json"));
  EXPECT_TRUE(read_json(folder.path() / "later.json").contains("termination"));
  fs::create_symlink("none/x", folder.path() / "nowhere.json");
  EXPECT_EQ(topograd("solve curve_fit.json --json nowhere.json" + quiet, cd).err,
            "topograd: nowhere.json: cannot be written\n");
}

TEST(CommandEnd, EachOutputIsWrittenAlthoughOthersFail) {
  const std::vector<std::string> options = {"json",     "report",        "metrics", "trace",
                                            "plan-out", "training-data", "out"};
  const auto run = [&](const std::vector<std::string>& full) {
    const TemporaryDir folder;
    std::string command = "solve arap --icosphere 1 --backend cpu --quiet", errors;
    for (const std::string& option : options) {
      const fs::path file = folder.path() / (option + ".obj");
      if (std::ranges::find(full, option) != full.end()) fs::create_symlink("/dev/full", file);
      command += " --" + option + " '" + file.string() + "'";
    }
    const CommandResult result = topograd(command);
    EXPECT_EQ(result.status, 2);
    EXPECT_EQ(std::ranges::count(result.err, '\n'), 1) << result.err;
    for (const std::string& option : options) {
      const fs::path file = folder.path() / (option + ".obj");
      const bool failed = std::ranges::find(full, option) != full.end();
      EXPECT_EQ(result.err.find(file.string() + ": cannot be written") != std::string::npos, failed)
          << result.err;
      if (!failed) {
        EXPECT_GT(fs::file_size(file), 0u) << option << " beside " << full.front();
      }
    }
    EXPECT_GT(fs::file_size(folder.path() / "out.png"), 0u) << full.front();
  };
  for (const std::string& option : options) run({option});
  run({"json", "metrics", "out"});
}

TEST(CommandEnd, TerminalsDoNotObeyNames) {
  // In names of files, on standard error.
  EXPECT_EQ(topograd("solve \"$(printf 'none\\033[31m\\302\\233\\303\\251.json')\"").err,
            "topograd: none?[31m?\u00e9.json: cannot be read: No such file or directory\n");
  // In labels, on a terminal.
  const TemporaryDir folder;
  const std::string problem = folder.path() / "p.json", out = folder.path() / "typescript";
  std::ofstream(problem)
      << R"({"title": "\u001b]0;title\u0007", "parameters": [{"name": "x", "values": [1]}],
      "residuals": [{"label": "red\u001b[31m", "expressions": ["x - 3; x + 2"], "parameters": {"x": "x"}}]})";
  const std::string run = "'" + (program_dir() / "topograd").string() + "' solve '" + problem +
                          "' --backend cpu --verbose";
  if (std::system("script --version >/dev/null 2>&1") != 0) GTEST_SKIP() << "no script";
  EXPECT_EQ(std::system(("script -qec \"" + run + "\" '" + out + "' >/dev/null 2>&1").c_str()), 0);
  const std::string shown = read_file(out);
  EXPECT_NE(shown.find("red?[31m"), std::string::npos) << shown;
  EXPECT_EQ(shown.find('\x1b'), std::string::npos) << shown;
  // A file gets what was asked for.
  EXPECT_NE(topograd("solve '" + problem + "' --backend cpu --verbose").out.find("red\x1b[31m"),
            std::string::npos);
}

TEST(CommandEnd, ASignalShortensALongStep) {
  // Second differences of a chain: one step of conjugate gradients would take hours.
  constexpr int kBlocks = 20000;
  const TemporaryDir folder;
  const std::string json = folder.path() / "report.json", problem = folder.path() / "beam.json";
  nlohmann::json at[3];
  for (int i = 0; i + 2 < kBlocks; ++i)
    for (int k = 0; k < 3; ++k) at[k].push_back(i + k);
  const auto block = [&](int k) { return nlohmann::json{{"array", "x"}, {"index", at[k]}}; };
  std::ofstream(problem) << nlohmann::json{
      {"parameters", {{{"name", "x"}, {"values", std::vector<double>(kBlocks)}}}},
      {"residuals",
       {{{"expressions", {"a - 2 * b + c - 1"}},
         {"parameters", {{"a", block(0)}, {"b", block(1)}, {"c", block(2)}}}}}}};
  const auto begin = std::chrono::steady_clock::now();
  const CommandResult result = topograd(
      "solve '" + problem +
          "' --backend cpu --method gauss_newton --linear pcg --preconditioner block_jacobi "
          "--forcing constant --max-linear-iterations 1000000000 --tolerance 0 --quiet --json '" +
          json + "'",
      "timeout --preserve-status -s TERM -k 30 2");
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - begin;
  ASSERT_EQ(result.status, 143);
  EXPECT_EQ(read_json(json)["message"], "interrupted by SIGTERM");
  EXPECT_LT(spent.count(), 20);
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
