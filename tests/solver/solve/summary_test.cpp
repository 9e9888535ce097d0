// Reports of a solve as text and as JSON.
#include <gtest/gtest.h>

#include "../../../ir/machine/platform.hpp"
#include "../../../solver/summary.hpp"
#include "../../support/paths.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <locale>
#include <string>
#include <vector>

namespace topograd {
namespace {

Summary sample() {
  Summary s;
  s.termination = Termination::CONVERGENCE;
  s.message = "function tolerance reached";
  s.initial_cost = 8;
  s.final_cost = 0.5;
  s.num_successful_steps = 3;
  s.num_unsuccessful_steps = 2;
  s.iterations = {{.cost = 8}, {.iteration = 1, .cost = 0.5, .linear_iterations = 17}};
  s.backend = "vulkan";
  s.on_device = true;
  s.device = "made-up device";
  s.why = "asked for";
  s.unknowns = 10;
  s.residuals = 20;
  s.topologies = {{"00112233445566778899aabbccddeeff", "edge", 5, 3}};
  s.times.glsl_ms = 1;
  s.times.spirv_ms = 2;
  s.times.pipeline_ms = 4;
  s.plan.batches = {{.topology = "0011", .name = "edge", .pass = "gradient", .candidates = {}}};
  s.plan.kernels = {{.name = "in memory", .origin = "memory", .figures = {}},
                    {.name = "edge gradient",
                     .glsl_ms = 1.25,
                     .spirv_ms = 20.5,
                     .pipeline_ms = 3.75,
                     .origin = "compiled",
                     .figures = {}}};
  return s;
}

TEST(Summary, BriefReportIsOneLine) {
  EXPECT_EQ(sample().brief_report(),
            "Topograd report: iterations: 5, initial cost: 8.000000e+00, final cost: 5.000000e-01, "
            "backend: vulkan, termination: CONVERGENCE");
}

TEST(Summary, FullReportNamesWhatRan) {
  const std::string report = sample().full_report();
  for (const char* part :
       {"made-up device", "why: asked for", "edge", "CONVERGENCE (function tolerance reached)",
        "00112233445566778899aabbccddeeff", "Successful", "8.0000000000e+00",
        "edge gradient                     1.25      20.50       3.75  compiled"}) {
    EXPECT_NE(report.find(part), std::string::npos) << part << "\n" << report;
  }
  EXPECT_EQ(report.find("in memory"), std::string::npos) << "it took no time";
}

TEST(Summary, ReportsHaveDecimalPointsInEveryLocale) {
  const test::TemporaryDir folder;
  const std::string make = "localedef -i de_DE -f UTF-8 '" +
                           (folder.path() / "de_DE.UTF-8").string() + "' >/dev/null 2>&1";
  if (std::system(make.c_str()) != 0) GTEST_SKIP() << "no locale can be made";
  const std::string want = sample().full_report() + to_json(sample());
  std::vector<std::string> lines;
  const platform::ChildEnd end = platform::run_child(
      [&](const auto& say) {
        platform::set_environment("LOCPATH", folder.path().string());
        std::locale::global(std::locale("de_DE.UTF-8"));  // the C library's, too
        say(std::to_string(0.5));
        say(sample().full_report() + to_json(sample()) == want ? "same" : sample().full_report());
      },
      [&](const std::string& line) { lines.push_back(line); }, 60);
  EXPECT_TRUE(end.well());
  EXPECT_EQ(lines, (std::vector<std::string>{"0,500000", "same"}));
}

TEST(Summary, BlocksThatNothingReadsAreNamed) {
  Summary s = sample();
  EXPECT_EQ(s.full_report().find("nothing reads"), std::string::npos);
  s.unread_blocks.resize(6);
  s.unread_names = {"parameter \"spare\"", "parameter array 1, block 30"};
  const std::string report = s.full_report();
  EXPECT_NE(report.find("Blocks that nothing reads                         6\n"
                        "  parameter \"spare\"\n"
                        "  parameter array 1, block 30\n"
                        "  and 4 more\n"),
            std::string::npos)
      << report;
  EXPECT_EQ(nlohmann::json::parse(to_json(s))["unread_blocks"], 6);
}

TEST(Summary, StepsFromGradientsNeedNoLinearSolver) {
  Summary s = sample();
  s.linear_solver = LinearSolver::cholesky;
  const struct {
    Method method;
    const char* solver;
  } rows[] = {{Method::levenberg_marquardt, "cholesky"},
              {Method::newton, "cholesky"},
              {Method::lbfgs, "none"},
              {Method::adam, "none"},
              {Method::sgd, "none"}};
  for (const auto& row : rows) {
    s.method = row.method;
    EXPECT_EQ(linear_solver_name(s), row.solver);
    EXPECT_EQ(nlohmann::json::parse(to_json(s))["linear_solver"], row.solver);
    EXPECT_NE(s.full_report().find(std::string(row.solver) + "\n"), std::string::npos);
  }
}

TEST(Summary, JsonHoldsTheFigures) {
  const auto json = nlohmann::json::parse(to_json(sample()));
  EXPECT_EQ(json["initial_cost"], 8.0);
  EXPECT_EQ(json["final_cost"], 0.5);
  EXPECT_EQ(json["iterations"], 5);
  EXPECT_EQ(json["termination"], "CONVERGENCE");
  EXPECT_EQ(json["backend"], "vulkan");
  EXPECT_EQ(json["precision"], "f64");
  EXPECT_EQ(json["compile_ms"], 7.0);
  EXPECT_EQ(json["topologies"][0]["instances"], 5);
  EXPECT_EQ(json["topologies"][0]["outputs"], 3);
  EXPECT_EQ(json["history"][1]["linear_iterations"], 17);
  for (const char* key : {"device", "build_s", "plan_s", "solve_s", "unknowns", "residuals"}) {
    EXPECT_TRUE(json.contains(key)) << key;
  }
}

TEST(Summary, JsonIsValidWithOddContent) {
  Summary s = sample();
  s.device = "caf\xe9 \"x\"\n";
  s.iterations[1].cost = std::numeric_limits<double>::quiet_NaN();
  const auto json = nlohmann::json::parse(to_json(s));
  EXPECT_TRUE(json["history"][1]["cost"].is_null());
}

TEST(Summary, HistoryTableHasALineAnIteration) {
  const std::string table = history_table(sample());
  EXPECT_EQ(std::count(table.begin(), table.end(), '\n'), 3);
}

}  // namespace
}  // namespace topograd
