// The command on sets of problems: a row per run, and totals.
#include "../support/paths.hpp"
#include "run_command.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace topograd::test {
namespace {

nlohmann::json report_of(const std::string& arguments, std::string* out = nullptr) {
  const TemporaryDir folder;
  const std::string json = folder.path() / "report.json";
  const CommandResult result = topograd(arguments + " --json '" + json + "'");
  EXPECT_EQ(result.status, 0) << result.err;
  if (out != nullptr) *out = result.out;
  return read_json(json);
}

std::string data() { return " --data '" + (source_dir() / "tests/data/nist").string() + "'"; }

TEST(SetsCommand, NistFromBothStarts) {
  std::string out;
  const nlohmann::json report = report_of("solve nist --backend cpu" + data(), &out);
  const struct {
    const char* name;
    int start;
    double sum;  // certified
  } rows[] = {{"Misra1a", 1, 1.2455138894e-01},
              {"Misra1a", 2, 1.2455138894e-01},
              {"Thurber", 1, 5.6427082397e+03},
              {"Thurber", 2, 5.6427082397e+03}};
  ASSERT_EQ(report["runs"].size(), std::size(rows));
  for (std::size_t k = 0; k < std::size(rows); ++k) {
    const nlohmann::json& run = report["runs"][k];
    EXPECT_EQ(run["name"], rows[k].name);
    EXPECT_EQ(run["start"], rows[k].start);
    EXPECT_NEAR(2 * run["cost"].get<double>(), rows[k].sum, 1e-9 * rows[k].sum);
    EXPECT_GE(run["digits"], 6);
    EXPECT_GT(run["iterations"], 0);
    EXPECT_EQ(run["termination"], "CONVERGENCE");
  }
  EXPECT_EQ(report["solved"], 4);
  EXPECT_EQ(report["backend"], "cpu");
  EXPECT_EQ(report["unknowns"], 2 * (2 + 7));
  EXPECT_EQ(report["residuals"], 2 * (14 + 37));
  EXPECT_NE(out.find("4 of 4 runs solved"), std::string::npos) << out;
}

TEST(SetsCommand, NistEndsAtTheFloorOfTheArithmetic) {
  // From Misra1a's first start the last steps of a dense factor predict no gain and are rejected.
  const nlohmann::json report = report_of("solve nist --backend cpu --linear dense" + data());
  for (const nlohmann::json& run : report["runs"]) {
    EXPECT_EQ(run["termination"], "CONVERGENCE") << run["name"] << ": " << run["message"];
    EXPECT_GE(run["digits"], 6) << run["name"];
  }
}

TEST(SetsCommand, RunsThatFallShortAreNamed) {
  const nlohmann::json report =
      report_of("solve nist --backend cpu --set Thurber --max-iterations 2" + data());
  EXPECT_EQ(report["solved"], 0);
  EXPECT_EQ(report["termination"], "NO_CONVERGENCE");
  EXPECT_EQ(report["message"],
            "0 of 2 runs solved; short: Thurber from start 1, Thurber from start 2");
}

TEST(SetsCommand, MghFromThreeStarts) {
  const nlohmann::json report = report_of("solve mgh --backend cpu --quiet");
  ASSERT_EQ(report["runs"].size(), 3 * 19u);
  int standard = 0;
  for (const auto& run : report["runs"]) standard += run["start"] == 1 && run["solved"] == true;
  EXPECT_EQ(standard, 19);
  // There is no cost where exp() overflows.
  const nlohmann::json& far = report["runs"][3 * 5 + 2];
  EXPECT_EQ(far["name"], "jennrich_sampson");
  EXPECT_EQ(far["start"], 100);
  EXPECT_EQ(far["termination"], "FAILURE");
  EXPECT_TRUE(far["cost"].is_null());
  EXPECT_EQ(far["digits"], 0);
  EXPECT_EQ(report["runs_without_cost"], 1);
  double sum = 0;
  for (const auto& run : report["runs"]) {
    for (const char* key : {"name", "start", "cost", "digits", "iterations", "termination"})
      EXPECT_TRUE(run.contains(key)) << run["name"] << " " << key;
    EXPECT_EQ(run["solved"].get<bool>(), run["digits"].get<double>() >= 4) << run;
    if (!run["cost"].is_null()) sum += run["cost"].get<double>();
  }
  EXPECT_NEAR(report["final_cost"].get<double>(), sum, 1e-12 * sum);
  EXPECT_GT(report["initial_cost"].get<double>(), sum);
}

TEST(SetsCommand, LargeProblemsOfMgh) {
  const nlohmann::json report = report_of("solve mgh --backend cpu --count 2000 --quiet");
  EXPECT_EQ(report["runs"].size(), 5u);  // variably_dimensioned stays small
  EXPECT_EQ(report["solved"], 5);
  EXPECT_EQ(report["unknowns"], 5 * 2000);
}

TEST(SetsCommand, BundleReportsItsErrors) {
  const nlohmann::json report =
      report_of("solve bundle --cameras 8 --points 100 --observations 500 --backend cpu --quiet");
  EXPECT_LE(report["final_cost"], 1e-16 * report["initial_cost"].get<double>());
  EXPECT_EQ(report["unknowns"], 9 * 8 + 3 * 100);
  EXPECT_EQ(report["residuals"], 2 * 500);
  for (const char* key : {"point_rms", "point_max", "center_rms", "center_max", "focal_max"})
    EXPECT_LE(report["errors"][key], 1e-6) << key;
}

TEST(SetsCommand, OneProblemOfASetServesTheOtherCommands) {
  const CommandResult list = topograd("dump nist --set Thurber --list" + data());
  EXPECT_EQ(list.status, 0) << list.err;
  EXPECT_NE(list.out.find("Thurber"), std::string::npos) << list.out;
  const nlohmann::json bench = report_of("bench mgh --set gulf --backend cpu");
  EXPECT_EQ(bench["instances"], 99);
  EXPECT_LT(bench["gradient_relative_error"], 1e-12);
}

}  // namespace
}  // namespace topograd::test
