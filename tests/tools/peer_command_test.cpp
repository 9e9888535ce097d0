// topograd solve --peer: Ceres from the same start in the same run, with both minima.
#include "../support/paths.hpp"
#include "run_command.hpp"

#include "../../api/formats/bal.hpp"
#include "../../api/formats/g2o.hpp"
#include "../../tools/problems/made_pose_graph.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <fstream>
#include <string>

namespace topograd::test {
namespace {

nlohmann::json solve(const std::string& arguments, std::string* out = nullptr) {
  const TemporaryDir folder;
  const std::string json = folder.path() / "report.json";
  const CommandResult result =
      topograd("solve " + arguments + " --backend cpu --peer ceres --json '" + json + "'");
  EXPECT_EQ(result.status, 0) << result.err;
  if (out != nullptr) *out = result.out;
  return read_json(json);
}

TEST(PeerCommand, CeresHasTheSameStartAndMinimum) {
  const struct {
    const char* arguments;
    const char* linear;
    bool one_minimum = true;
  } rows[] = {
      {"arap --icosphere 2 --tolerance 1e-12 --max-iterations 300", "SPARSE_NORMAL_CHOLESKY"},
      {"smooth --icosphere 2 --tolerance 1e-12", "SPARSE_NORMAL_CHOLESKY"},
      {"smooth --icosphere 1 --tolerance 1e-12 --linear dense", "DENSE_QR"},
      {"springs --width 4 --tolerance 1e-12 --max-iterations 300", "SPARSE_NORMAL_CHOLESKY", false},
      // Observations with half a pixel of noise: this minimum is not known beforehand.
      {"bundle --cameras 8 --points 300 --observations 1500 --noise 0.5 --tolerance 1e-14",
       "SPARSE_SCHUR"},
      {"developable --icosphere 1 --perturb 0.001 --max-iterations 400", "LBFGS", false},
  };
  for (const auto& row : rows) {
    SCOPED_TRACE(row.arguments);
    const nlohmann::json report = solve(row.arguments);
    ASSERT_EQ(report["peers"].size(), 1u);
    const nlohmann::json& ceres = report["peers"][0];
    EXPECT_EQ(ceres["name"], "Ceres");
    EXPECT_EQ(ceres["linear_solver"], row.linear);
    EXPECT_GT(ceres["time_s"], 0);
    EXPECT_GT(ceres["iterations"], 1);
    const double start = report["initial_cost"], cost = report["final_cost"];
    EXPECT_NEAR(ceres["initial_cost"].get<double>(), start, 1e-12 * start);
    if (row.one_minimum) {
      EXPECT_NEAR(ceres["cost"].get<double>(), cost, 1e-6 * cost);
    }
    EXPECT_LT(ceres["cost"].get<double>(), start);
    EXPECT_GT(cost, 0);
    EXPECT_LT(cost, start);
  }
}

// Its residuals of pose graphs are written for it; both begin at the odometry, far from the
// minimum.
TEST(PeerCommand, CeresHasTheSamePoseGraphs) {
  const TemporaryDir folder;
  const std::string file = folder.path() / "graph.g2o";
  for (const int dimension : {2, 3}) {
    std::ofstream(file) << g2o_text(problems::made_pose_graph(dimension, 8, 0.03));
    for (const std::string objective : {"chordal", "geodesic", "chi2"}) {
      for (const std::string loss : {"", " --loss huber:1", " --loss cauchy:2"}) {
        SCOPED_TRACE(std::to_string(dimension) + " " + objective + loss);
        const nlohmann::json report =
            solve("pose-graph '" + file + "' --start odometry --objective " + objective + loss +
                  " --tolerance 1e-12");
        ASSERT_EQ(report["peers"].size(), 1u);
        const nlohmann::json& ceres = report["peers"][0];
        EXPECT_EQ(ceres["linear_solver"], "SPARSE_NORMAL_CHOLESKY");
        const double start = report["initial_cost"], cost = report["final_cost"];
        EXPECT_NEAR(ceres["initial_cost"].get<double>(), start, 1e-11 * start);
        EXPECT_NEAR(ceres["cost"].get<double>(), cost, 1e-8 * cost);
        EXPECT_LT(cost, 0.75 * start);
        EXPECT_GT(cost, 1);
      }
    }
  }
}

/// Four cameras and 30 points, with noise and outliers.
BundleScene noisy_scene() {
  BundleScene scene;
  for (std::uint32_t c = 0; c < 4; ++c)
    scene.cameras.insert(scene.cameras.end(), {0, 0.1 * c, 0, -0.5 * c, 0, 0, 100, 0.1, 0});
  for (std::uint32_t p = 0; p < 30; ++p) {
    const double a = 2.4 * p;
    scene.points.insert(scene.points.end(), {std::sin(a), std::cos(1.3 * a), -5 + std::sin(2 * a)});
    for (std::uint32_t c = 0; c < 4; ++c) {
      std::array<double, 2> seen = scene.project(c, p);
      for (double& x : seen) x += (p % 7 == c ? 20 : 0.5) * std::sin(a * (c + 1));
      scene.observations.push_back({c, p, seen});
    }
  }
  return scene;
}

TEST(PeerCommand, CeresHasTheSameLossOfAScene) {
  const TemporaryDir folder;
  const std::string file = folder.path() / "scene.txt";
  write_scene(file, noisy_scene());
  const nlohmann::json report =
      solve("bal '" + file + "' --loss huber:1 --tolerance 1e-12 --max-iterations 1000");
  const nlohmann::json& ceres = report["peers"][0];
  const double start = report["initial_cost"], cost = report["final_cost"];
  EXPECT_NEAR(ceres["initial_cost"].get<double>(), start, 1e-11 * start);
  EXPECT_NEAR(ceres["cost"].get<double>(), cost, 2e-5 * cost);  // the valley is flat
  EXPECT_LT(cost, 0.9 * start);
}

TEST(PeerCommand, CeresHoldsWhatIsFixed) {
  const TemporaryDir folder;
  const std::string file = folder.path() / "scene.txt";
  write_scene(file, noisy_scene());
  double free_cost = 0;
  for (const std::string fix :
       {"", " --fix k2=0 k1", " --fix translation", " --fix cameras", " --fix points f=99"}) {
    SCOPED_TRACE(fix);
    const nlohmann::json report =
        solve("bal '" + file + "' --tolerance 1e-12 --max-iterations 300" + fix);
    ASSERT_EQ(report["peers"].size(), 1u);
    const nlohmann::json& ceres = report["peers"][0];
    const double start = report["initial_cost"], cost = report["final_cost"];
    EXPECT_NEAR(ceres["initial_cost"].get<double>(), start, 1e-11 * start);
    EXPECT_NEAR(ceres["cost"].get<double>(), cost, 1e-4 * cost);  // the valley is flat
    if (fix.empty()) {
      free_cost = cost;
    } else {
      EXPECT_GT(cost, 1.001 * free_cost);
    }
  }
}

// With our residuals and Jacobians, from both starts.
TEST(PeerCommand, AStartThatIsTheMinimumTakesNoSteps) {
  const TemporaryDir folder;
  const std::string mesh = folder.path() / "triangle.obj";
  std::ofstream(mesh) << "v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 3\n";
  for (const std::string name : {"multi", "smooth"}) {
    const nlohmann::json report = solve(name + " --mesh '" + mesh + "'");
    EXPECT_EQ(report["iterations"], 0) << name;
    EXPECT_EQ(report["peers"][0]["iterations"], 0) << name;
  }
}

TEST(PeerCommand, CeresFindsCertifiedAnswers) {
  const nlohmann::json report =
      solve("nist --data '" + (source_dir() / "tests/data/nist").string() + "'");
  ASSERT_EQ(report["runs"].size(), 4u);
  for (const nlohmann::json& run : report["runs"]) {
    const nlohmann::json& ceres = run["peers"][0];
    EXPECT_EQ(ceres["linear_solver"], "DENSE_QR");
    EXPECT_TRUE(ceres["solved"]) << run.dump(1);
    for (const char* key : {"name", "version", "libraries", "time_s", "iterations", "termination"})
      EXPECT_TRUE(ceres.contains(key)) << key;
    EXPECT_GT(ceres["time_s"], 0);
    EXPECT_GE(ceres["digits"], 6) << run.dump(1);
    EXPECT_NEAR(ceres["cost"].get<double>(), run["cost"].get<double>(),
                1e-9 * run["cost"].get<double>());
  }
  for (const nlohmann::json& run : solve("mgh --set beale")["runs"])
    EXPECT_EQ(run["peers"][0]["termination"], "CONVERGENCE") << run.dump(1);
}

TEST(PeerCommand, ReportsHaveTheirLine) {
  const TemporaryDir folder;
  const std::string page = folder.path() / "page.html";
  std::string out;
  solve("smooth --icosphere 1 --report '" + page + "'", &out);
  EXPECT_NE(out.find("\nBeside it: Ceres "), std::string::npos) << out;
  EXPECT_NE(read_file(page).find("Beside other solvers"), std::string::npos);
}

}  // namespace
}  // namespace topograd::test
