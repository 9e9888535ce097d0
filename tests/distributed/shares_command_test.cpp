// `topograd solve --distributed` where each rank makes a share of the residuals, against one
// process.
#include "../../api/formats/bal.hpp"
#include "../../tools/problems/bundle.hpp"
#include "../support/paths.hpp"

#include "launch.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>

namespace topograd::test {
namespace {

using nlohmann::json;

/// Runs the command; returns its report. `arguments` may have {out} for a file in `folder`.
json report_of(const std::string& launcher, std::string arguments, const std::string& more,
               const std::filesystem::path& folder) {
  const std::string out = folder / "out.json", err = folder / "err";
  for (std::size_t at = arguments.find("{}"); at != std::string::npos; at = arguments.find("{}"))
    arguments.replace(at, 2, folder.string());
  const std::string command = launcher + (program_dir() / "topograd").string() + " solve " +
                              arguments + " --linear pcg --preconditioner block_jacobi " + more +
                              " --max-iterations 5 --json " + out + " >/dev/null 2>" + err;
  EXPECT_EQ(std::system(command.c_str()), 0) << command << "\n" << read_file(err);
  return json::parse(read_file(out));
}

/// Removes what differs between runs, and between one process and several.
void keep_figures(json& report) {
  static const std::set<std::string> kOthers = {
      "device",         "why",          "plan", "distributed", "linear_solver_note", "method_note",
      "kernels_on_cpu", "deterministic"};
  if (report.is_array())
    for (json& element : report) keep_figures(element);
  if (!report.is_object()) return;
  for (auto at = report.begin(); at != report.end();) {
    const std::string& key = at.key();
    if (kOthers.contains(key) || key.ends_with("_s") || key.ends_with("_ms")) {
      at = report.erase(at);
    } else {
      keep_figures(*at++);
    }
  }
}

/// A chain of 60 points with bounds, and with weights of which one is 0.
std::string chain_file() {
  constexpr int kPoints = 60;
  json values, from, to, weights, targets;
  for (int k = 0; k < kPoints; ++k) {
    values.push_back(std::sin(0.7 * k));
    values.push_back(std::cos(1.3 * k));
    targets.push_back(0.02 * k);
    if (k + 1 == kPoints) break;
    from.push_back(k);
    to.push_back(k + 1);
    weights.push_back(k == 17 ? 0.0 : 1 + 0.1 * k);
  }
  const json file = {
      {"title", "a chain"},
      {"parameters",
       {{{"name", "p"}, {"width", 2}, {"values", values}, {"constant", {0}}, {"lower", -5}}}},
      {"uniforms", {{{"name", "pull"}, {"value", 0.25}}}},
      {"data", {{{"name", "target"}, {"values", targets}}}},
      {"residuals",
       {{{"label", "step"},
         {"expressions", {"b.x - a.x - 0.1", "sin(b.y) - a.y"}},
         {"parameters",
          {{"a", {{"array", "p"}, {"index", from}}}, {"b", {{"array", "p"}, {"index", to}}}}},
         {"weight", weights}},
        {{"expressions", {"pull * (p.x - target)"}},
         {"parameters", {"p"}},
         {"data", {"target"}}}}}};
  return file.dump();
}

/// A robot that drives in a circle, twice, and measures where it was a round ago.
std::string planar_graph() {
  constexpr int kPoses = 60, kRound = 30;
  constexpr double kTurn = 6.283185307179586 / kRound;
  std::string out;
  const auto edge = [&](int from, int to, double x, double y, double angle) {
    out += "EDGE_SE2 " + std::to_string(from) + " " + std::to_string(to) + " " + std::to_string(x) +
           " " + std::to_string(y) + " " + std::to_string(angle) + " 40 0 0 40 0 90\n";
  };
  for (int k = 0; k + 1 < kPoses; ++k)
    edge(k, k + 1, 1 + 0.03 * std::sin(k), 0.02 * std::cos(3 * k), kTurn + 0.02 * std::sin(5 * k));
  for (int k = 0; k + kRound < kPoses; ++k)
    edge(k, k + kRound, 0.1 * std::sin(k), 0.1 * std::cos(k), 0.01);
  return out;
}

/// A robot that drives along a helix, and measures where it was a round ago.
std::string spatial_graph() {
  constexpr int kPoses = 60, kRound = 20;
  constexpr double kTurn = 6.283185307179586 / kRound;
  std::string out;
  const auto edge = [&](int from, int to, double x, double y, double z, double angle) {
    const double half = angle / 2, tilt = 0.01 * std::sin(from);
    const double norm = std::sqrt(1 + tilt * tilt);
    out += "EDGE_SE3:QUAT " + std::to_string(from) + " " + std::to_string(to);
    for (const double v : {x, y, z, tilt / norm, 0.0, std::sin(half) / norm, std::cos(half) / norm})
      out += " " + std::to_string(v);
    for (int row = 0; row < 6; ++row)
      for (int column = row; column < 6; ++column)
        out += row != column ? " 0" : row < 3 ? " 40" : " 90";
    out += "\n";
  };
  for (int k = 0; k + 1 < kPoses; ++k)
    edge(k, k + 1, 1 + 0.03 * std::sin(k), 0.02 * std::cos(3 * k), 0.1,
         kTurn + 0.02 * std::sin(5 * k));
  for (int k = 0; k + kRound < kPoses; ++k)
    edge(k, k + kRound, 0.1 * std::sin(k), 0.1 * std::cos(k), 2, 0.01);
  return out;
}

class ShareCommand : public testing::TestWithParam<std::pair<std::string, std::string>> {};

// All figures of the report, with residuals that are named, and all bytes of files.
TEST_P(ShareCommand, HasTheReportAndFilesOfOneProcess) {
  const TemporaryDir folder;
  for (const char* name : {"one", "several"})
    std::filesystem::create_directory(folder.path() / name);
  const auto scene =
      problems::bundle({.cameras = 6, .points = 60, .observations = 300, .noise = 0.5, .seed = 2});
  for (const char* name : {"one", "several"}) {
    write_scene(folder.path() / name / "scene.txt", *scene);
    std::ofstream(folder.path() / name / "chain.json") << chain_file();
    std::ofstream(folder.path() / name / "graph.g2o") << planar_graph();
    std::ofstream(folder.path() / name / "space.g2o") << spatial_graph();
  }
  json one =
      report_of("", GetParam().second, "--deterministic --backend cpu", folder.path() / "one");
  json several = report_of(mpirun(most_ranks()), GetParam().second, "--distributed",
                           folder.path() / "several");
  EXPECT_EQ(several["distributed"]["ranks"], most_ranks());
  EXPECT_EQ(several["distributed"]["residuals"], "share");
  keep_figures(one);
  keep_figures(several);
  EXPECT_GT(one["residuals"], 0);
  EXPECT_EQ(json::diff(one, several), json::array());
  for (const char* file : {"out.txt", "out.ply", "out.obj", "out.g2o"}) {
    const std::filesystem::path expected = folder.path() / "one" / file;
    if (!std::filesystem::exists(expected)) continue;
    EXPECT_GT(std::filesystem::file_size(expected), 0U);
    EXPECT_TRUE(read_file(folder.path() / "several" / file) == read_file(expected)) << file;
  }
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path() / "several"), {}),
            std::distance(std::filesystem::directory_iterator(folder.path() / "one"), {}));
}

INSTANTIATE_TEST_SUITE_P(
    All, ShareCommand,
    testing::Values(
        std::pair{"springs", "springs --width 20"},
        std::pair{"springs_shuffled", "springs --width 20 --shuffle 3"},
        std::pair{"bundle", "bundle --cameras 6 --points 60 --observations 300 --noise 0.5"},
        std::pair{"arap", "arap --icosphere 2 --out {}/out.obj"},
        std::pair{"smooth", "smooth --icosphere 2 --out {}/out.obj"},
        std::pair{"developable", "developable --icosphere 2 --perturb 0.05 --edges"},
        std::pair{"file", "{}/chain.json"},
        std::pair{"graph", "pose-graph {}/graph.g2o --loss huber:1 --out {}/out.g2o"},
        std::pair{"space", "pose-graph {}/space.g2o --objective chi2 --out {}/out.g2o"},
        std::pair{"bal", "bal {}/scene.txt --loss huber:1 --out {}/out.txt"},
        std::pair{"bal_ply", "bal {}/scene.txt --normalize --fix k2=0 --out {}/out.ply"}),
    [](const auto& of) { return of.param.first; });

TEST(Shares, TheManualsExampleRuns) {
  const TemporaryDir folder;
  const std::string out = folder.path() / "out";
  const std::string command =
      mpirun(2) + (program_dir() / "tests/test_distributed_chain_shares").string() + " >" + out;
  ASSERT_EQ(std::system(command.c_str()), 0);
  const std::string text = read_file(out);
  EXPECT_NE(text.find("CONVERGENCE"), std::string::npos) << text;
  EXPECT_NE(text.find("\n   1 "), std::string::npos) << text;
}

}  // namespace
}  // namespace topograd::test
