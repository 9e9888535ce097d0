// Meshes of all formats by the command.
#include "../support/paths.hpp"
#include "run_command.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace topograd::test {
namespace {

nlohmann::json solved(const std::string& arguments, const std::string& json, std::string& out) {
  const CommandResult run =
      topograd("solve " + arguments + " --backend cpu --max-iterations 1 --json '" + json + "'");
  EXPECT_EQ(run.status, 0) << run.err;
  out = run.out;
  return read_json(json);
}

TEST(MeshCommand, AnyFormatInAndOut) {
  const TemporaryDir folder;
  const std::string base = folder.path() / "mesh", json = folder.path() / "report.json";
  std::string out;
  double cost = 0;
  for (const std::string extension : {".obj", ".off", ".ply", ".stl"}) {
    solved("smooth --icosphere 2 --out '" + base + extension + "'", json, out);
    EXPECT_EQ(read_file(base + ".png").substr(1, 3), "PNG") << extension;
    std::filesystem::remove(base + ".png");
  }
  for (const std::string extension : {".obj", ".off", ".ply", ".stl"}) {
    const nlohmann::json report = solved("arap --mesh '" + base + extension + "'", json, out);
    EXPECT_EQ(report["mesh"]["vertices"], 162) << extension;
    EXPECT_EQ(report["mesh"]["triangles"], 320) << extension;
    const double start = report["initial_cost"].get<double>();
    if (cost == 0) cost = start;
    EXPECT_NEAR(start, cost, 1e-12 * cost) << extension;
  }
  EXPECT_EQ(read_file(base + ".ply").substr(0, 4), "ply\n");
}

TEST(MeshCommand, SaysWhereAMeshIsNotManifold) {
  const TemporaryDir folder;
  const std::string mesh = folder.path() / "book.off", json = folder.path() / "report.json";
  std::ofstream(mesh)
      << "OFF\n5 3 0\n0 0 0\n1 0 0\n0 1 0\n0 0 1\n0 -1 0\n3 0 1 2\n3 1 0 3\n3 0 1 4\n";
  std::string out;
  const nlohmann::json report = solved("smooth --mesh '" + mesh + "'", json, out)["mesh"];
  EXPECT_EQ(report["edges_not_manifold"], 1);
  EXPECT_EQ(report["vertices_not_manifold"], 0);
  const std::string note = mesh +
                           ":10: not manifold: 3 triangles meet in the edge from vertex 0 to "
                           "vertex 1 (lines 8, 9, 10)";
  EXPECT_EQ(report["notes"], nlohmann::json::array({note}));
  EXPECT_NE(out.find(note + "\n"), std::string::npos) << out;
}

TEST(MeshCommand, WritesNothingIfTheMeshIsRefused) {
  const TemporaryDir folder;
  const std::string mesh = folder.path() / "mesh.ply", out = folder.path() / "out.stl";
  std::ofstream(mesh) << "ply\nformat ascii 1.0\nelement vertex 9999999999\nproperty double x\n"
                         "property double y\nproperty double z\nend_header\n0 0 0\n";
  const CommandResult run =
      topograd("solve arap --mesh '" + mesh + "' --out '" + out + "' --json '" + out + ".json'");
  EXPECT_EQ(run.status, 2);
  EXPECT_EQ(run.err, "topograd: " + mesh +
                         ":3: expected 9999999999 items of \"vertex\", got a file that has room "
                         "for 1\n");
  EXPECT_FALSE(std::filesystem::exists(out));
  EXPECT_FALSE(std::filesystem::exists(out + ".json"));
}

}  // namespace
}  // namespace topograd::test
