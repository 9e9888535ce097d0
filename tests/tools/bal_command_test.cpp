// Bundle adjustment of BAL files by the command.
#include "../support/paths.hpp"
#include "run_command.hpp"

#include "../../api/formats/bal.hpp"

#include <gtest/gtest.h>

#include <zlib.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <string>

namespace topograd::test {
namespace {

/// Cameras in a row that look at points in a box: exact observations, and points that are moved.
BundleScene moved_scene() {
  BundleScene scene;
  constexpr std::uint32_t kCameras = 6, kPoints = 40;
  for (std::uint32_t c = 0; c < kCameras; ++c)
    scene.cameras.insert(scene.cameras.end(),
                         {0.01 * c, 0.02 * c, 0, -0.5 * c, 0.1, -1, 400, 0.01, 0.001});
  for (std::uint32_t k = 0; k < kPoints; ++k) {
    const double angle = 2.4 * k;
    scene.points.insert(scene.points.end(),
                        {1.5 + std::sin(angle), std::cos(1.3 * angle), -5 + std::sin(2.9 * angle)});
  }
  for (std::uint32_t c = 0; c < kCameras; ++c)
    for (std::uint32_t k = 0; k < kPoints; ++k)
      scene.observations.push_back({c, k, scene.project(c, k)});
  for (std::size_t k = 0; k < scene.points.size(); ++k)
    scene.points[k] += 0.02 * std::sin(3.0 * static_cast<double>(k));
  return scene;
}

class BalCommand : public testing::Test {
 protected:
  BalCommand() {
    write_scene(path("scene.txt"), moved_scene());
    const std::string text = read_file(path("scene.txt"));
    gzFile file = gzopen(path("scene.gz").c_str(), "wb");
    gzwrite(file, text.data(), static_cast<unsigned>(text.size()));
    gzclose(file);
  }
  std::string path(const std::string& name) const { return (folder_.path() / name).string(); }

  TemporaryDir folder_;
};

TEST_F(BalCommand, SolvesAndTellsReprojectionErrors) {
  const ReprojectionErrors start = reprojection_errors(moved_scene());
  for (const char* file : {"scene.txt", "scene.gz"}) {
    const CommandResult run = topograd(
        "solve bal " + path(file) + " --backend cpu --tolerance 1e-12 --json " +
        path("report.json") + " --out " + path("end.ply") + " --report " + path("page.html"));
    ASSERT_EQ(run.status, 0) << run.err;
    EXPECT_NE(run.out.find("Reprojection errors in pixels, 240 observations"), std::string::npos)
        << run.out;
    const nlohmann::json report = read_json(path("report.json"));
    const nlohmann::json& errors = report["reprojection"];
    EXPECT_EQ(errors["observations"], 240);
    EXPECT_NEAR(errors["rmse_before"].get<double>(), start.rmse, 1e-9);
    EXPECT_LT(errors["rmse"].get<double>(), 1e-5);
    EXPECT_EQ(errors["worst"].size(), 10u);
    EXPECT_EQ(read_file(path("end.ply")).substr(0, 4), "ply\n");
    EXPECT_EQ(read_file(path("end.png")).substr(1, 3), "PNG");
    EXPECT_NE(read_file(path("page.html")).find("cameras are orange"), std::string::npos);
  }
}

TEST_F(BalCommand, WritesTheSceneBack) {
  const CommandResult run =
      topograd("solve bal " + path("scene.txt") +
               " --backend cpu --fix cameras --normalize --quiet --out " + path("end.txt"));
  ASSERT_EQ(run.status, 0) << run.err;
  const BundleScene end = read_bal(path("end.txt"));
  const BundleScene start = moved_scene();
  EXPECT_LT(reprojection_errors(end).rmse, 1e-3);
  for (std::size_t k = 0; k < start.cameras.size(); ++k)
    EXPECT_NEAR(end.cameras[k], start.cameras[k], 1e-12);
}

struct Row {
  std::string arguments;
  const char* expected;
};

TEST_F(BalCommand, MistakesAreOneLine) {
  std::ofstream(path("bad.txt")) << "2 1 2\n0 0 1 1\n2 0 1 1\n";
  const Row rows[] = {
      {"", "bal: expected a file"},
      {path("none.txt"), "none.txt: cannot be read"},
      {path("bad.txt"), "bad.txt:1: expected 29 numbers"},
      {path("scene.txt") + " --fix k9", "expected rotation, translation, f, k1, k2, cameras or "},
      {path("scene.txt") + " --loss huber", "--loss: expected one of trivial, huber:A"},
      {path("scene.txt") + " --loss huber:-1", "huber"},
      {path("scene.txt") + " --mesh a.obj", "expected --mesh with arap"},
  };
  for (const Row& row : rows) {
    const CommandResult run = topograd("solve bal " + row.arguments);
    EXPECT_EQ(run.status, 2) << row.arguments;
    EXPECT_NE(run.err.find(row.expected), std::string::npos) << row.arguments << "\n" << run.err;
    EXPECT_EQ(std::ranges::count(run.err, '\n'), 1) << run.err;
  }
}

TEST_F(BalCommand, RobustLossTakesOutliers) {
  BundleScene scene = moved_scene();
  scene.observations[7].seen[0] += 200;
  write_scene(path("outlier.txt"), scene);
  const CommandResult run =
      topograd("solve bal " + path("outlier.txt") +
               " --backend cpu --loss cauchy:0.1 --max-iterations 200 --quiet --json " +
               path("report.json"));
  ASSERT_EQ(run.status, 0) << run.err;
  const nlohmann::json errors = read_json(path("report.json"))["reprojection"];
  EXPECT_EQ(errors["worst"][0]["camera"], 0);
  EXPECT_EQ(errors["worst"][0]["point"], 7);
  EXPECT_LT(errors["median"].get<double>(), 1e-2);
}

}  // namespace
}  // namespace topograd::test
