// Pose graphs of g2o files by the command.
#include "../support/paths.hpp"
#include "run_command.hpp"

#include "../../api/formats/g2o.hpp"
#include "../../api/formats/pose_graph_problem.hpp"
#include "../../tools/problems/made_pose_graph.hpp"

#include <gtest/gtest.h>

#include <zlib.h>

#include <algorithm>
#include <fstream>
#include <string>

namespace topograd::test {
namespace {

class PoseGraphCommand : public testing::Test {
 protected:
  PoseGraphCommand() { write("graph.g2o", g2o_text(problems::made_pose_graph(3, 5, 0.02))); }

  std::string path(const std::string& name) const { return (folder_.path() / name).string(); }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(path(name), std::ios::binary) << text;
  }
  CommandResult solve(const std::string& arguments) const {
    return topograd("solve pose-graph " + arguments);
  }
  /// Runs on the CPU, and returns what the report says of the graph.
  nlohmann::json solved(const std::string& arguments) const {
    const CommandResult run =
        solve(arguments + " --backend cpu --tolerance 1e-10 --json " + path("report.json"));
    EXPECT_EQ(run.status, 0) << run.err;
    return run.status == 0 ? read_json(path("report.json")) : nlohmann::json();
  }

  TemporaryDir folder_;
};

TEST_F(PoseGraphCommand, SolvesAndTellsErrors) {
  const std::string text = read_file(path("graph.g2o"));
  gzFile file = gzopen(path("graph.gz").c_str(), "wb");
  gzwrite(file, text.data(), static_cast<unsigned>(text.size()));
  gzclose(file);
  for (const char* name : {"graph.g2o", "graph.gz"}) {
    const CommandResult run =
        solve(path(name) + " --backend cpu --tolerance 1e-10 --json " + path("report.json") +
              " --out " + path("end.g2o") + " --report " + path("page.html"));
    ASSERT_EQ(run.status, 0) << run.err;
    const nlohmann::json report = read_json(path("report.json"));
    const nlohmann::json& graph = report["pose_graph"];
    EXPECT_EQ(graph["dimension"], 3);
    EXPECT_EQ(graph["poses"], 25);
    EXPECT_EQ(graph["edges"], 40);
    EXPECT_EQ(graph["objective"], "chordal");
    EXPECT_EQ(graph["pieces"], nlohmann::json::parse(R"([{"poses": 25, "fixed": [0]}])"));
    ASSERT_EQ(graph["worst"].size(), 10u);
    EXPECT_GE(graph["worst"][0]["error"], graph["worst"][1]["error"]);
    EXPECT_GT(graph["worst"][0]["line"], 25);  // after the vertices
    EXPECT_NEAR(graph["value"].get<double>(), 2 * report["final_cost"].get<double>(), 1e-9);
    const PoseGraph end = read_g2o(path("end.g2o"));
    const PoseGraphErrors errors = pose_graph_errors(end, PoseObjective::chordal);
    EXPECT_NEAR(errors.objective, graph["value"].get<double>(), 1e-9);
    EXPECT_NEAR(errors.chi2, graph["chi2"].get<double>(), 1e-9);
    EXPECT_NE(run.out.find("Pose graph in space, 25 poses, 40 edges"), std::string::npos);
    EXPECT_NE(run.out.find("line " + graph["worst"][0]["line"].dump() + ", edge from "),
              std::string::npos)
        << run.out;
    EXPECT_EQ(read_file(path("end.png")).substr(1, 3), "PNG");
    EXPECT_NE(read_file(path("page.html")).find("the error of an edge"), std::string::npos);
  }
  // The written graph is a minimum already.
  const nlohmann::json again = solved(path("end.g2o") + " --start file --out " + path("end2.g2o"));
  EXPECT_NEAR(again["pose_graph"]["value_before"].get<double>(),
              again["pose_graph"]["value"].get<double>(), 1e-9);
  EXPECT_LT(problems::farthest(read_g2o(path("end.g2o")), read_g2o(path("end2.g2o"))), 1e-6);
}

TEST_F(PoseGraphCommand, StartsAndObjectives) {
  PoseGraph lost = problems::made_pose_graph(2, 5, 0.02);
  std::string text = g2o_text(lost);
  text.erase(0, text.find("EDGE"));  // without vertices
  write("lost.g2o", text);
  for (const std::string objective : {"chordal", "geodesic", "chi2"}) {
    double least = 0;
    for (const std::string start : {"chordal", "odometry", "file"}) {
      const nlohmann::json report =
          solved(path("lost.g2o") + " --objective " + objective + " --start " + start);
      EXPECT_EQ(report["pose_graph"]["start"], start);
      EXPECT_EQ(report["pose_graph"]["objective"], objective);
      const double value = report["pose_graph"]["value"].get<double>();
      if (least == 0) least = value;
      EXPECT_NEAR(value, least, 1e-8 * least);
    }
  }
  const nlohmann::json robust = solved(path("lost.g2o") + " --objective geodesic --loss huber:1");
  EXPECT_LT(2 * robust["final_cost"].get<double>(), robust["pose_graph"]["value"].get<double>());
}

TEST_F(PoseGraphCommand, RejectsFalseClosures) {
  const std::string clean = read_file(path("graph.g2o"));
  const std::size_t lines = static_cast<std::size_t>(std::ranges::count(clean, '\n'));
  write("false.g2o", clean +
                         "EDGE_SE3:QUAT 0 24 0 1 0 0 0 0 1 900 0 0 0 0 0 900 0 0 0 0 900 0 0 0 "
                         "900 0 0 900 0 900\n");
  const nlohmann::json report =
      solved(path("false.g2o") + " --gnc --out " + path("kept.g2o"))["pose_graph"];
  const nlohmann::json& rejected = report["gnc"]["rejected"];
  ASSERT_FALSE(rejected.empty());
  EXPECT_LT(rejected.size(), 4u);
  EXPECT_EQ(rejected.back(), nlohmann::json::parse(R"({"line": )" + std::to_string(lines + 1) +
                                                   R"(, "from": 0, "to": 24})"));
  EXPECT_EQ(report["edges"], 41 - rejected.size());
  EXPECT_EQ(read_g2o(path("kept.g2o")).edges.size(), 41 - rejected.size());
  const nlohmann::json all = solved(path("false.g2o") + " --gnc --gnc-threshold 1e9")["pose_graph"];
  EXPECT_EQ(all["edges"], 41);
}

TEST_F(PoseGraphCommand, NotesWhatIsOddAndRefusesItIfStrict) {
  const std::string unit = " 1 0 0 1 0 0 1 0 1\n", edge = "EDGE_SE2 0 1" + unit;
  write("odd.g2o", edge + edge + "EDGE_SE2 7 8" + unit + "TAG 1\n");
  const CommandResult run =
      solve(path("odd.g2o") + " --backend cpu --skip-unknown --json " + path("report.json"));
  ASSERT_EQ(run.status, 0) << run.err;
  for (const char* line : {"piece 2 of 2: 2 poses, pose 7 stays",
                           "line 2 repeats the edge of line 1, from 0 to 1: it counts twice",
                           "skipped: 1 line of TAG"}) {
    EXPECT_NE(run.out.find(line), std::string::npos) << line << run.out;
  }
  const nlohmann::json graph = read_json(path("report.json"))["pose_graph"];
  EXPECT_EQ(graph["pieces"].size(), 2u);
  EXPECT_EQ(graph["duplicates"][0]["first_line"], 1);
  EXPECT_EQ(graph["skipped"][0]["tag"], "TAG");
  const CommandResult quiet = solve(path("odd.g2o") + " --backend cpu --skip-unknown --quiet");
  EXPECT_EQ(quiet.status, 0);
  EXPECT_EQ(quiet.out, "");
  EXPECT_NE(quiet.err.find("odd.g2o: --skip-unknown skipped 1 line of TAG\n"), std::string::npos)
      << quiet.err;
}

/// No pose of the second piece stays: a prior holds it.
TEST_F(PoseGraphCommand, TellsOfPiecesThatPriorsHold) {
  const std::string unit = " 1 0 0 1 0 0 1 0 1\n";
  write("held.g2o", "EDGE_SE2 0 1" + unit + "EDGE_SE2 7 8" + unit + "EDGE_PRIOR_SE2 8" + unit);
  const CommandResult run = solve(path("held.g2o") + " --backend cpu --json " +
                                  path("report.json") + " --report " + path("page.html"));
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_NE(run.out.find("piece 1 of 2: 2 poses, pose 0 stays"), std::string::npos) << run.out;
  EXPECT_NE(run.out.find("piece 2 of 2: 2 poses, none stays"), std::string::npos) << run.out;
  EXPECT_EQ(read_json(path("report.json"))["pose_graph"]["pieces"][1]["fixed"],
            nlohmann::json::array());
}

TEST_F(PoseGraphCommand, ReadsOnlyTheBlocksThatTheObjectiveNeeds) {
  // Coupling of position and rotation that is no covariance, as in SE-Sync's file "cubicle".
  PoseGraph graph = problems::made_pose_graph(3, 5, 0.02), blocks = graph;
  for (PoseGraph::Edge& edge : graph.edges)
    for (const auto& [i, j] : {std::pair{0, 3}, {1, 4}, {2, 5}})
      edge.information[6 * i + j] = edge.information[6 * j + i] = 5e3;
  write("coupled.g2o", g2o_text(graph));
  for (PoseGraph::Edge& edge : blocks.edges)
    for (std::size_t i = 0; i < 3; ++i)
      for (std::size_t j = 3; j < 6; ++j)
        edge.information[6 * i + j] = edge.information[6 * j + i] = 0;
  write("blocks.g2o", g2o_text(blocks));
  const nlohmann::json coupled = solved(path("coupled.g2o")), plain = solved(path("blocks.g2o"));
  EXPECT_EQ(coupled["final_cost"], plain["final_cost"]);
  EXPECT_EQ(coupled["termination"], "CONVERGENCE");
  const CommandResult run = solve(path("coupled.g2o") + " --backend cpu");
  EXPECT_NE(run.out.find("40 edges have an information matrix that is not positive semidefinite"),
            std::string::npos)
      << run.out;
}

/// A robot sees one landmark twice, one metre and one and a half away, from places that are fixed:
/// with weights 1 and 3 the optimum is at 1.375, and χ² is 0.1875 = 1 · 0.375² + 3 · 0.125².
TEST_F(PoseGraphCommand, SolvesLandmarks) {
  write("seen.g2o",
        "VERTEX_SE2 0 0 0 0\nVERTEX_SE2 1 1 0 0\nFIX 0 1\nEDGE_SE2 0 1 1 0 0 1 0 0 1 0 1\n"
        "EDGE_SE2_XY 0 7 1 0 1 0 1\nEDGE_SE2_XY 1 7 0.5 0 3 0 3\nVERTEX_XY 7 9 9\n");
  for (const std::string objective : {"g2o", "chi2", "chordal", "geodesic"}) {
    const nlohmann::json report = solved(path("seen.g2o") + " --objective " + objective +
                                         " --out " + path("end.g2o"))["pose_graph"];
    EXPECT_EQ(report["landmarks"], 1);
    EXPECT_EQ(report["sightings"], 2);
    EXPECT_NEAR(report["value"].get<double>(), 0.1875, 1e-9) << objective;
    EXPECT_NEAR(report["chi2"].get<double>(), 0.1875, 1e-9) << objective;
    EXPECT_EQ(report["worst"][0]["to"], 7);
    const PoseGraph end = read_g2o(path("end.g2o"));
    EXPECT_NEAR(end.landmarks[0].position[0], 1.375, 1e-6);
    EXPECT_NEAR(end.landmarks[0].position[1], 0, 1e-6);
  }
}

/// Two priors of one place, with weights 1 and 3 as above, and no edges.
TEST_F(PoseGraphCommand, SolvesPriorsAlone) {
  write("prior.g2o",
        "VERTEX_SE3:QUAT 0 9 9 9 0 0 0 1\nPARAMS_SE3OFFSET 0 0 0 0 0 0 0 1\n"
        "EDGE_SE3_PRIOR 0 0 1 0 0 0 0 0 1 1 0 0 0 0 0 1 0 0 0 0 1 0 0 0 1 0 0 1 0 1\n"
        "EDGE_SE3_XYZ_PRIOR 0 0 1.5 0 0 3 0 0 3 0 3\n");
  const nlohmann::json report = solved(path("prior.g2o") + " --objective g2o")["pose_graph"];
  EXPECT_EQ(report["priors"], 2);
  EXPECT_NEAR(report["value"].get<double>(), 0.1875, 1e-9);
}

struct Row {
  std::string arguments;
  const char* expected;
};

TEST_F(PoseGraphCommand, MistakesAreOneLineAndNothingIsWritten) {
  const std::string unit = " 1 0 0 1 0 0 1 0 1\n", edge = "EDGE_SE2 0 1" + unit;
  write("tag.g2o", edge + "EDGE 0 1\n");
  write("twice.g2o", edge + edge);
  write("pieces.g2o", edge + "EDGE_SE2 2 3" + unit);
  write("nan.g2o", edge + "EDGE_SE2 1 2 0 nan 0 1 0 0 1 0 1\n");
  PoseGraph coupled = problems::made_pose_graph(2, 2, 0.02);
  coupled.edges[1].information[2] = coupled.edges[1].information[12] = 1e5;
  write("coupled.g2o", g2o_text(coupled));
  write("chain.g2o", edge + "EDGE_SE2 1 2" + unit + "EDGE_SE2_XY_CALIB 0 9 1 1 1 0 1\n");
  const Row rows[] = {
      {path("chain.g2o") + " --skip-unknown",
       "chain.g2o: expected edges with a loop, got 2 edges without one after --skip-unknown "
       "skipped 1 of EDGE_SE2_XY_CALIB: poses meet all of them, and nothing is left to minimise"},
      {path("coupled.g2o") + " --objective chi2",
       "coupled.g2o:6: expected positive semidefinite information matrices, which the objective "
       "chi2 reads whole, got one with the eigenvalue -"},
      {path("coupled.g2o") + " --objective geodesic", "reads only its blocks of position"},
      {"", "pose-graph: expected a file"},
      {path("none.g2o"), "none.g2o: cannot be read"},
      {path("tag.g2o"), "tag.g2o:2: expected a known tag, such as VERTEX_SE2"},
      {path("nan.g2o"), "nan.g2o:2: expected y as a finite number, got \"nan\""},
      {path("twice.g2o") + " --strict", "twice.g2o:2: expected each edge once, got that of line 1"},
      {path("pieces.g2o") + " --strict", "pieces.g2o:2: expected a graph in one piece, got pose 2"},
      {path("graph.g2o") + " --objective l1",
       "objective: expected one of chordal, geodesic, chi2, g2o, got \"l1\""},
      {path("graph.g2o") + " --start here",
       "start: expected one of file, odometry, chordal, got \"here\""},
      {path("graph.g2o") + " --loss huber", "--loss: expected one of trivial, huber:A"},
      {path("graph.g2o") + " --gnc --gnc-threshold -1", "expected a threshold > 0"},
      {path("graph.g2o") + " --fix k2", "expected --fix with bal"},
  };
  for (const Row& row : rows) {
    const CommandResult run = solve(row.arguments + " --out " + path("out.g2o"));
    EXPECT_EQ(run.status, 2) << row.arguments;
    EXPECT_NE(run.err.find(row.expected), std::string::npos) << row.arguments << "\n" << run.err;
    EXPECT_EQ(std::ranges::count(run.err, '\n'), 1) << run.err;
    EXPECT_FALSE(std::filesystem::exists(path("out.g2o"))) << row.arguments;
  }
}

}  // namespace
}  // namespace topograd::test
