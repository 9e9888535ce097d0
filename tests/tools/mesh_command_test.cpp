// Meshes of all formats by the command.
#include "../support/paths.hpp"
#include "run_command.hpp"

#include "../../api/formats/mesh/mesh.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>

namespace topograd::test {
namespace {

nlohmann::json solved(const std::string& arguments, const std::string& json, std::string& out) {
  const bool limited = arguments.find("--max-iterations") != std::string::npos;
  const CommandResult run =
      topograd("solve " + arguments + " --backend cpu" + (limited ? "" : " --max-iterations 1") +
               " --json '" + json + "'");
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

TEST(MeshCommand, SmoothTakesTheMeshAsItIs) {
  // The angles opposite to the diagonal of a square have cotangent 0, so its weight is 10⁻⁴, and
  // the cost ½ 10⁻⁴ |(1, 1)|² = 10⁻⁴.
  const TemporaryDir folder;
  const std::string mesh = folder.path() / "square.off", end = folder.path() / "end.off";
  std::ofstream(mesh) << "OFF\n4 2 0\n0 0 0\n1 0 0\n1 1 0\n0 1 0\n3 0 1 2\n3 0 2 3\n";
  const std::string start = " --mesh '" + mesh + "' --max-iterations 0 --out '" + end + "'";
  std::string out;
  const nlohmann::json plain = solved("smooth" + start, folder.path() / "report.json", out);
  EXPECT_NEAR(plain["initial_cost"].get<double>(), 1e-4, 1e-16);
  EXPECT_EQ(plain["mesh"]["noise"], 0);
  EXPECT_EQ(read_mesh(end).positions, read_mesh(mesh).positions);
  EXPECT_EQ(out.find("noise"), std::string::npos) << out;
  const nlohmann::json noisy =
      solved("smooth --noise 0.1" + start, folder.path() / "report.json", out);
  EXPECT_EQ(noisy["mesh"]["noise"], 0.1);
  EXPECT_NE(read_mesh(end).positions, read_mesh(mesh).positions);
  EXPECT_EQ(out.find("smooth adds noise of up to 0.1 times"), 0u) << out;
  const nlohmann::json sphere =
      solved("smooth --icosphere 0 --max-iterations 0", folder.path() / "report.json", out);
  EXPECT_EQ(sphere["mesh"]["noise"], 0.01);
}

TEST(MeshCommand, ArapSaysWhatItMovesAndTakesHandles) {
  const TemporaryDir folder;
  const std::string mesh = folder.path() / "tetrahedron.off", end = folder.path() / "end.off";
  const std::string handles = folder.path() / "handles.txt", json = folder.path() / "report.json";
  std::ofstream(mesh) << "OFF\n4 4 0\n0 0 0\n1 0 0\n0 1 0\n0 0 1\n"
                         "3 0 2 1\n3 0 1 3\n3 0 3 2\n3 1 2 3\n";
  std::string out;
  const std::string arap =
      "arap --mesh '" + mesh + "' --tolerance 1e-14 --max-iterations 100 --out '" + end + "'";
  const nlohmann::json lifted = solved(arap, json, out);
  EXPECT_EQ(lifted["mesh"]["handles"], 4);
  EXPECT_EQ(
      out.find("arap keeps the lowest 5 % of the mesh (in y) in place and lifts the highest 5 "
               "% by half its height (in z), 4 vertices; --handles FILE"),
      0u)
      << out;
  // Three vertices that move by (1, 2, 3): so does the fourth, at no cost.
  std::ofstream(handles) << "# vertex x y z\n0 1 2 3\n\n2 1 3 3 # the second\n 1 2 2 3\n";
  const nlohmann::json moved = solved(arap + " --handles '" + handles + "'", json, out);
  EXPECT_EQ(moved["mesh"]["handles"], 3);
  EXPECT_EQ(out.find("arap moves 3 vertices to the targets of " + handles), 0u) << out;
  EXPECT_LT(moved["final_cost"].get<double>(), 1e-15);
  const std::vector<double> expected = {1, 2, 3, 2, 2, 3, 1, 3, 3, 1, 2, 4};
  const std::vector<double> positions = read_mesh(end).positions;
  for (std::size_t k = 0; k < expected.size(); ++k) EXPECT_NEAR(positions[k], expected[k], 1e-6);
  const struct {
    const char *text, *error;
  } rows[] = {
      {"0 1 2\n", ":1: expected a coordinate as a finite number, got the end of the line"},
      {"0 1 2 3\n4 0 0 0\n", ":2: expected a vertex"},
      {"0 1 2 3\n-1 0 0 0\n", ":2: expected a vertex"},
      {"0 1 2 3\n\n0 1 2 3\n", ":3: expected each vertex once, got vertex 0 of line 1"},
      {"0 1 2 3 4\n", ":1: expected the end of the line, got \"4\""},
      {"0 1 2 nan\n", ":1: expected a coordinate as a finite number, got \"nan\""},
      {"# none\n", ":2: expected lines NUMBER x y z, got none"},
  };
  for (const auto& row : rows) {
    std::ofstream(handles) << row.text;
    const CommandResult run =
        topograd("solve arap --backend cpu --mesh '" + mesh + "' --handles '" + handles + "'");
    EXPECT_EQ(run.status, 2) << row.text;
    EXPECT_NE(run.err.find("handles.txt" + std::string(row.error)), std::string::npos)
        << row.text << run.err;
    EXPECT_EQ(std::ranges::count(run.err, '\n'), 1) << run.err;
  }
}

TEST(MeshCommand, SaysWhereAMeshHasNoAnswer) {
  const TemporaryDir folder;
  const std::string mesh = folder.path() / "mesh.off";
  const struct {
    const char *problem, *text, *error;
  } rows[] = {
      // The vertices 1 and 3 are at the same place.
      {"smooth", "OFF\n4 2 0\n0 0 0\n1 0 0\n0 1 0\n1 0 0\n3 0 1 2\n3 1 0 3\n",
       "mesh.off: mesh: expected triangles with an area, because the cotangents of their angles "
       "weigh the edges, got one without area: vertices 3 at (1, 0, 0), 0 at (0, 0, 0) and 1 at "
       "(1, "
       "0, 0)"},
      {"multi", "OFF\n4 2 0\n0 0 0\n1 0 0\n0 1 0\n2 0 0\n3 0 1 2\n3 1 0 3\n",
       "mesh.off: mesh: expected triangles with an area"},
      {"developable", "OFF\n4 2 0\n0 0 0\n1 0 0\n1 1 0\n0 1 1\n3 0 1 2\n3 0 2 3\n",
       "mesh.off: developable: expected a vertex of three triangles or more, got a mesh of 2 "
       "triangles without one; one or two triangles can always be unrolled"},
  };
  for (const auto& row : rows) {
    std::ofstream(mesh) << row.text;
    const CommandResult run =
        topograd(std::string("solve ") + row.problem + " --backend cpu --mesh '" + mesh + "'");
    EXPECT_EQ(run.status, 2) << row.problem;
    EXPECT_NE(run.err.find(row.error), std::string::npos) << run.err;
    EXPECT_EQ(std::ranges::count(run.err, '\n'), 1) << run.err;
  }
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
