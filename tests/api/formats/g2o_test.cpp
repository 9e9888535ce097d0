// g2o files: what is read, what is refused, and what is written.
#include "../../../api/formats/g2o.hpp"
#include "../../../ir/error.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

namespace topograd::test {
namespace {

constexpr const char* kPlane =
    "# a comment\n"
    "VERTEX_SE2 7 1 2 0.5\n"
    "VERTEX_SE2 3 0 0 0\n"
    "FIX 3\n"
    "\n"
    "EDGE_SE2 7 3 1 -2 0.25 4 1 0 5 0 6 # another\n"
    "EDGE_SE2 3 12 1 0 0 1 0 0 1 0 1\n";

const std::string kIdentity = " 1 0 0 0 0 0 1 0 0 0 0 1 0 0 0 1 0 0 1 0 1";

TEST(G2o, ReadsThePlane) {
  const PoseGraph graph = parse_g2o(kPlane, "plane.g2o");
  EXPECT_EQ(graph.dimension, 2);
  EXPECT_EQ(graph.ids, (std::vector<std::int64_t>{7, 3, 12}));
  EXPECT_EQ(graph.given, (std::vector<bool>{true, true, false}));
  EXPECT_EQ(graph.fixed, (std::vector<bool>{false, true, false}));
  EXPECT_FALSE(graph.has_start());
  EXPECT_EQ(graph.poses[0].position, (std::array<double, 3>{1, 2, 0}));
  EXPECT_NEAR(graph.poses[0].angle(), 0.5, 1e-15);
  ASSERT_EQ(graph.edges.size(), 2u);
  const PoseGraph::Edge& edge = graph.edges[0];
  EXPECT_EQ(edge.line, 6u);
  EXPECT_EQ(edge.from, 0u);
  EXPECT_EQ(edge.to, 1u);
  EXPECT_NEAR(edge.measured.angle(), 0.25, 1e-15);
  const std::vector<double> rows = {4, 1, 0, 1, 5, 0, 0, 0, 6};
  for (std::size_t k = 0; k < 9; ++k) EXPECT_EQ(edge.information[6 * (k / 3) + k % 3], rows[k]);
}

TEST(G2o, ReadsSpace) {
  // The quaternion has its w last and twice the length of 1.
  const PoseGraph graph =
      parse_g2o("EDGE_SE3:QUAT 0 1 1 2 3 0 0 2 0" + kIdentity + "\r\n", "space.g2o");
  EXPECT_EQ(graph.dimension, 3);
  EXPECT_EQ(graph.edges[0].measured.position, (std::array<double, 3>{1, 2, 3}));
  EXPECT_EQ(graph.edges[0].measured.rotation, (std::array<double, 4>{0, 0, 0, 1}));
  for (std::size_t i = 0; i < 6; ++i)
    for (std::size_t j = 0; j < 6; ++j)
      EXPECT_EQ(graph.edges[0].information[6 * i + j], i == j ? 1 : 0);
}

struct Bad {
  std::string text;
  const char* expected;
  G2oOptions options = {};
};

TEST(G2o, ErrorsNameFileAndLine) {
  const std::string edge = "EDGE_SE2 0 1 1 0 0 1 0 0 1 0 1\n";
  const Bad rows[] = {
      {"", "f.g2o:1: expected edges, got none"},
      {"VERTEX_SE2 0 0 0 0\n", "f.g2o:2: expected edges, got none"},
      {edge + "EDGE_SE2_XY_CALIB 0 1 1\n",
       "f.g2o:2: expected a known tag, such as VERTEX_SE2 or EDGE_SE3:QUAT, got "
       "\"EDGE_SE2_XY_CALIB\", which "},
      {edge + "VERTEX_XY 0 1 1\n", "f.g2o:2: expected a landmark of number 0, got a pose"},
      {edge + "EDGE_SE2_XY 0 1 1 1 1 0 1\n",
       "f.g2o:2: expected a landmark of number 1, got a pose"},
      {edge + "EDGE_SE2_XY 0 7 1 1 1 2 1\n",
       "f.g2o:2: expected a positive semidefinite information matrix, or one whose blocks of "
       "position and of rotation are, got one with the eigenvalue -1"},
      {edge + "VERTEX_XY 7 0 0\nVERTEX_XY 7 0 0\n", "f.g2o:3: landmark 7 is given twice"},
      {edge + "EDGE_SE2_XY 0 7 1 1 1 0 1\nFIX 7\n",
       "f.g2o:2: expected a vertex for pose 7, which is fixed, got none"},
      {edge + "EDGE_SE2_POINTXY_OFFSET 0 7 3 1 1 1 0 1\n",
       "f.g2o:2: expected PARAMS_SE2OFFSET 3, which this edge names, got none"},
      {"PARAMS_SE3OFFSET 3 0 0 0 0 0 0 1\n" + edge + "EDGE_SE2_POINTXY_OFFSET 0 7 3 1 1 1 0 1\n",
       "f.g2o:3: expected PARAMS_SE2OFFSET 3, which this edge names, got none"},
      {"PARAMS_SE2OFFSET 3 0 0 0\nPARAMS_SE2OFFSET 3 0 0 0\n" + edge,
       "f.g2o:2: sensor 3 is given twice"},
      {edge + "EDGE_SE2_OFFSET 0 1 3 4 1 0 0 1 0 0 1 0 1\n",
       "f.g2o:2: expected PARAMS_SE2OFFSET 3, which this edge names, got none"},
      {edge + "EDGE_SE2_CALIB 0 1 1 1 0 0 1 0 0 1 0 1\n",
       "f.g2o:2: expected a third pose, that of the sensor, got pose 1 again"},
      {edge + "EDGE_SE2_SWITCHABLE 0 1 1 1 0 0 1 0 0 1 0 1\n",
       "f.g2o:2: expected a switch of number 1, got a pose"},
      {edge + "VERTEX_SWITCH 2 1.5\n",
       "f.g2o:2: expected the value of a switch in 0 .. 1, got 1.5"},
      {edge + "VERTEX_SWITCH 2 1\nVERTEX_SWITCH 2 1\n", "f.g2o:3: switch 2 is given twice"},
      {edge + "EDGE_SWITCH_PRIOR 2 1 -1\n",
       "f.g2o:2: expected a positive semidefinite information matrix"},
      {"EDGE_SWITCH_PRIOR 2 1 1\n", "f.g2o:2: expected edges, got none"},
      {"EDGE2 0 1 1 0 0 1 2 1 1 2 1\n",
       "f.g2o:1: expected positive semidefinite information matrices, in TORO's order or in g2o's, "
       "got one with the eigenvalue -1.37"},
      {edge + "VERTEX_SE3:QUAT 0 0 0 0 0 0 0 1\n",
       "f.g2o:2: expected poses of 2 dimensions, got VERTEX_SE3:QUAT"},
      {"VERTEX_SE2 0 0 0 0\nVERTEX_SE2 0 0 0 0\n" + edge, "f.g2o:2: pose 0 is given twice"},
      {edge + "FIX 1\n", "f.g2o:1: expected a vertex for pose 1, which is fixed, got none"},
      {"EDGE_SE2 5 5 1 0 0 1 0 0 1 0 1\n", "f.g2o:1: expected an edge between two poses, got one"},
      {"EDGE_SE2 0 1 nan 0 0 1 0 0 1 0 1\n", "f.g2o:1: expected x as a finite number, got \"nan\""},
      {"EDGE_SE2 0 1 1e400 0 0 1 0 0 1 0 1\n",
       "f.g2o:1: expected x as a finite number, got \"1e400\""},
      {"EDGE_SE2 1.5 1 0 0 0 1 0 0 1 0 1\n",
       "f.g2o:1: expected the number of a pose as a whole number, got \"1.5\""},
      {"EDGE_SE2 9223372036854775807 1 0 0 0 1 0 0 1 0 1\n",
       "f.g2o:1: expected the number of a pose as a whole number, got \"9223372036854775807\""},
      {"EDGE_SE2 0 99999999999999999999 0 0 0 1 0 0 1 0 1\n",
       "f.g2o:1: expected the number of a pose as a whole number, got \"99999999999999999999\""},
      {edge + "EDGE_SE2 0 1 1 0 0 1 0 0 1 0\n" + edge,
       "f.g2o:2: expected a number of an information matrix as a finite number, got the end of the "
       "line"},
      {"EDGE_SE2 0 1 1 0 0 1 0 0 1 0 1 7\n", "f.g2o:1: expected the end of the line, got \"7\""},
      {"VERTEX_SE2 0 0 0\n" + edge,
       "f.g2o:1: expected an angle as a finite number, got the end of the line"},
      {edge + "EDGE_SE2 1 2 1 0 0 1 2 0 1 0 1\n",
       "f.g2o:2: expected a positive semidefinite information matrix"},
      {edge + "EDGE_SE2 1 2 1 0 0 1 0 0 1 0 -1\n",
       "f.g2o:2: expected a positive semidefinite information matrix, or one whose blocks of "
       "position and of rotation are, got one with the eigenvalue -1"},
      {edge + "FIX\n", "f.g2o:2: expected the number of a pose as a whole number"},
      {edge + "VERTEX_SE2 0 0 0 0\nFIX 0 x\n",
       "f.g2o:3: expected the number of a pose as a whole number, got \"x\""},
      {"EDGE4 0 1\nEQUIV 0 1\nEDGE4 1 2\n",
       "f.g2o:4: expected edges, got none; skipped lines: 2 of EDGE4, 1 of EQUIV",
       {.skip_unknown = true}},
      {edge + "EDGE_SE2 1 2 1 0 0 1e308 1e308 1e308 1e308 1e308 1e308\n",
       "f.g2o:2: expected a positive semidefinite information matrix"},
      {"EDGE_SE3:QUAT 0 1 0 0 0 0 0 0 0" + kIdentity + "\n",
       "f.g2o:1: expected a quaternion of a length > 0"},
      {edge + "\n" + edge,
       "f.g2o:3: expected each edge once, got that of line 1",
       {.strict = true}},
      {edge + "EDGE_SE2 4 5 1 0 0 1 0 0 1 0 1\nEDGE_SE2 5 6 1 0 0 1 0 0 1 0 1\n",
       "f.g2o:2: expected a graph in one piece, got pose 4, to which no edges lead from pose 0",
       {.strict = true}},
      {edge + "VERTEX_SE2 9 0 0 0\n",
       "f.g2o:2: expected a graph in one piece, got pose 9",
       {.strict = true}},
      {"VERTEX_SE2 0 0 0 0\n" + edge,
       "f.g2o:2: expected a vertex for pose 1, as others have, got none",
       {.strict = true}},
  };
  for (const Bad& row : rows) {
    try {
      parse_g2o(row.text, "f.g2o", row.options);
      ADD_FAILURE() << row.text;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::Parse);
      EXPECT_EQ(std::string(error.what()).find(row.expected), 0u)
          << error.what() << "\nexpected " << row.expected;
    }
  }
}

TEST(G2o, NotesWhatItPassesOver) {
  const std::string edge = "EDGE_SE2 0 1 1 0 0 1 0 0 1 0 1\n";
  G2oNotes notes;
  const PoseGraph graph = parse_g2o("PARAMS_SE2OFFSET 0 0 0 0\n" + edge + "X 1\nX 2\n" + edge,
                                    "f.g2o", {.skip_unknown = true}, &notes);
  EXPECT_EQ(graph.edges.size(), 2u);
  ASSERT_EQ(notes.skipped.size(), 2u);
  EXPECT_EQ(notes.skipped[0].tag, "PARAMS_SE2OFFSET");
  EXPECT_EQ(notes.skipped[1].tag, "X");
  EXPECT_EQ(notes.skipped[1].lines, 2u);
  ASSERT_EQ(notes.duplicates.size(), 1u);
  EXPECT_EQ(notes.duplicates[0].line, 5u);
  EXPECT_EQ(notes.duplicates[0].first_line, 2u);
  EXPECT_EQ(notes.duplicates[0].from, 0);
  EXPECT_EQ(notes.duplicates[0].to, 1);
}

TEST(G2o, ReadsLandmarksOfThePlane) {
  const std::string text =
      "VERTEX_XY 9 4 5\nVERTEX_SE2 0 0 0 0\nFIX 0 9\nPARAMS_SE2OFFSET 2 0.5 0 0\n"
      "EDGE_SE2_XY 0 9 1 2 3 0.5 4\nEDGE_SE2_POINTXY_OFFSET 0 -8 2 1 2 3 0.5 4\n"
      "EDGE_BEARING_SE2_XY 0 -8 0.25 7\nEDGE_PRIOR_SE2 0 1 2 0.5 1 0 0 2 0 3\n"
      "EDGE_SE2_PRIOR_XY 0 1 2 1 0 2\nEDGE_PRIOR_SE2_XY 0 1 2 1 0 2\nEDGE_PRIOR_XY 9 1 2 1 0 2\n";
  G2oNotes notes;
  const PoseGraph graph = parse_g2o(text, "f.g2o", {}, &notes);
  EXPECT_TRUE(notes.skipped.empty());
  EXPECT_EQ(graph.fixed, std::vector<bool>{true});
  ASSERT_EQ(graph.landmarks.size(), 2u);
  EXPECT_EQ(graph.landmarks[0].id, 9);
  EXPECT_EQ(graph.landmarks[0].position, (std::array<double, 3>{4, 5, 0}));
  EXPECT_TRUE(graph.landmarks[0].given && graph.landmarks[0].fixed);
  EXPECT_EQ(graph.landmarks[1].id, -8);
  EXPECT_FALSE(graph.landmarks[1].given || graph.landmarks[1].fixed);
  ASSERT_EQ(graph.sightings.size(), 3u);
  EXPECT_EQ(graph.sightings[0].sensor, PoseGraph::kNoSensor);
  EXPECT_EQ(graph.sightings[0].edge.measured.position, (std::array<double, 3>{1, 2, 0}));
  EXPECT_EQ(graph.sightings[0].edge.information[1], 0.5);
  EXPECT_EQ(graph.sightings[0].edge.information[7], 4);
  EXPECT_EQ(graph.sightings[0].edge.line, 5u);
  EXPECT_EQ(graph.offset(graph.sightings[1].sensor).position[0], 0.5);
  EXPECT_TRUE(graph.sightings[2].bearing);
  EXPECT_NEAR(graph.sightings[2].edge.measured.angle(), 0.25, 1e-15);
  ASSERT_EQ(graph.priors.size(), 4u);
  using Of = PoseGraph::Prior::Of;
  const Of kinds[] = {Of::pose, Of::position, Of::position, Of::landmark};
  for (std::size_t k = 0; k < 4; ++k) EXPECT_EQ(graph.priors[k].of, kinds[k]) << k;
  const PoseGraph again = parse_g2o(g2o_text(graph), "again.g2o");
  EXPECT_EQ(g2o_text(again), g2o_text(graph));
  EXPECT_EQ(again.sightings.size(), 3u);
  EXPECT_EQ(again.priors.size(), 4u);
}

TEST(G2o, ReadsLandmarksOfSpace) {
  const std::string pose = "1 2 3 0 0 1 0", point = "1 2 3 1 0 0 1 0 1\n";
  const std::string text =
      "PARAMS_SE3OFFSET 0 0 0 0 0 0 0 1\nPARAMS_SE3OFFSET 1 0 0 1 0 0 0 1\n"
      "VERTEX_SE3:QUAT 0 " +
      pose +
      "\nVERTEX_TRACKXYZ 1 1 2 3\nVERTEX_POINT_XYZ 2 4 5 6\n"
      "EDGE_SE3_TRACKXYZ 0 1 1 " +
      point + "EDGE_SE3_PRIOR 0 1 " + pose + kIdentity + "\nEDGE_SE3_PRIOR 0 " + pose + kIdentity +
      " # without a sensor\n"
      "EDGE_SE3_XYZ_PRIOR 0 0 " +
      point + "EDGE_POINTXYZ_PRIOR 0 " + point + "EDGE_POINTXYZ_PRIOR 2 " + point;
  G2oNotes notes;
  const PoseGraph graph = parse_g2o(text, "f.g2o", {}, &notes);
  EXPECT_EQ(graph.landmarks.size(), 2u);
  ASSERT_EQ(graph.sightings.size(), 1u);
  EXPECT_EQ(graph.offset(graph.sightings[0].sensor).position[2], 1);
  ASSERT_EQ(graph.priors.size(), 5u);
  EXPECT_EQ(graph.offset(graph.priors[0].sensor).position[2], 1);
  EXPECT_EQ(graph.priors[1].sensor, PoseGraph::kNoSensor);
  using Of = PoseGraph::Prior::Of;
  const Of kinds[] = {Of::pose, Of::pose, Of::position, Of::position, Of::landmark};
  for (std::size_t k = 0; k < 5; ++k) EXPECT_EQ(graph.priors[k].of, kinds[k]) << k;
  ASSERT_EQ(notes.skipped.size(), 1u);  // the sensor that no edge reads
  EXPECT_EQ(notes.skipped[0].tag, "PARAMS_SE3OFFSET");
  EXPECT_EQ(notes.skipped[0].lines, 1u);
  const std::string written = g2o_text(graph);
  EXPECT_EQ(g2o_text(parse_g2o(written, "again.g2o")), written);
}

TEST(G2o, ReadsBothOrdersOfToro) {
  // I11 = 4, I12 = 1, I22 = 5, I33 = 6, I13 = 0.5, I23 = 0.25.
  const std::string vertices = "VERTEX2 0 0 0 0\nVERTEX2 1 1 0 0.5\n";
  const struct {
    std::string numbers, order;
  } rows[] = {{"4 1 5 6 0.5 0.25", "I11 I12 I22 I33 I13 I23"},
              {"4 1 0.5 5 0.25 6", "I11 I12 I13 I22 I23 I33"}};
  for (const auto& row : rows) {
    G2oNotes notes;
    const PoseGraph graph = parse_g2o(
        vertices + "EDGE2 0 1 1 0 0.5 " + row.numbers + "\nEQUIV 0 1\n", "f.graph", {}, &notes);
    EXPECT_EQ(notes.information_order, row.order);
    const std::vector<double> expected = {4, 1, 0.5, 1, 5, 0.25, 0.5, 0.25, 6};
    for (std::size_t k = 0; k < 9; ++k)
      EXPECT_EQ(graph.edges[0].information[6 * (k / 3) + k % 3], expected[k]) << row.numbers << k;
    EXPECT_NEAR(graph.poses[1].angle(), 0.5, 1e-15);
    EXPECT_EQ(notes.skipped[0].tag, "EQUIV");
  }
  // Roll, pitch and yaw: Rz(π/2) moves x to y, Ry(π/2) z to x.
  const PoseGraph space = parse_g2o(
      "VERTEX3 0 1 2 3 0 0 1.5707963267948966\nEDGE3 0 1 0 0 0 0 "
      "1.5707963267948966 0" +
          kIdentity + "\n",
      "f.graph");
  const Pose moved = space.poses[0] * Pose{{1, 0, 0}};
  EXPECT_NEAR(moved.position[1], 3, 1e-15);
  EXPECT_NEAR((space.edges[0].measured * Pose{{0, 0, 1}}).position[0], 1, 1e-15);
}

TEST(G2o, TakesZeroAndSemidefiniteInformation) {
  G2oNotes notes;
  parse_g2o("EDGE_SE2 0 1 1 0 0 0 0 0 0 0 0\nEDGE_SE2 1 2 1 0 0 1 1 0 1 0 0\n", "f.g2o", {},
            &notes);
  EXPECT_TRUE(notes.indefinite.empty());
}

TEST(G2o, FixesSeveralPosesInALine) {
  const std::string edges = "EDGE_SE2 4 6 1 0 0 1 0 0 1 0 1\nEDGE_SE2 6 8 1 0 0 1 0 0 1 0 1\n";
  const std::string vertices = "VERTEX_SE2 4 0 0 0\nVERTEX_SE2 6 1 0 0\nVERTEX_SE2 8 2 0 0\n";
  for (const char* fix :
       {"FIX 4 8\n", "FIX 4\nFIX 8 # the last\n", "FIX  8\t4 \r\n", "FIX\v4\f8 \v\f\n"}) {
    const PoseGraph graph = parse_g2o(vertices + fix + edges, "f.g2o");
    EXPECT_EQ(graph.fixed, (std::vector<bool>{true, false, true})) << fix;
  }
}

TEST(G2o, PassesOverPlacesOfSensors) {
  G2oNotes notes;
  const PoseGraph graph = parse_g2o(
      "PARAMS_SE3OFFSET 1 0 0 0 0 0 0 1 \nVERTEX_SE2 0 0 0 0\n"
      "VERTEX_SE2 1 1 0 0\nEDGE_SE2 0 1 1 0 0 1 0 0 1 0 1\n",
      "f.g2o", {}, &notes);
  EXPECT_EQ(graph.dimension, 2);
  EXPECT_EQ(graph.size(), 2u);
  ASSERT_EQ(notes.skipped.size(), 1u);
  EXPECT_EQ(notes.skipped[0].tag, "PARAMS_SE3OFFSET");
}

TEST(G2o, NotesMatricesWithDefiniteBlocksAlone) {
  G2oNotes notes;
  parse_g2o("EDGE_SE2 0 1 1 0 0 1 0 0 1 0 1\nEDGE_SE2 1 2 1 0 0 1 0 2 1 0 1\n", "f.g2o", {},
            &notes);
  EXPECT_EQ(notes.indefinite, std::vector<std::size_t>{2});
}

TEST(G2o, NotesPosesThatLackTheVertexWhichOthersHave) {
  const std::string edges = "EDGE_SE2 0 1 1 0 0 1 0 0 1 0 1\nEDGE_SE2 1 77 1 0 0 1 0 0 1 0 1\n";
  G2oNotes notes;
  parse_g2o("VERTEX_SE2 0 0 0 0\nVERTEX_SE2 1 0 0 0\n" + edges, "f.g2o", {}, &notes);
  ASSERT_EQ(notes.without_vertex.size(), 1u);
  EXPECT_EQ(notes.without_vertex[0].pose, 77);
  EXPECT_EQ(notes.without_vertex[0].line, 4u);
  parse_g2o(edges + "VERTEX_SE2 1 0 0 0\nVERTEX_SE2 77 0 0 0\n", "f.g2o", {}, &notes);
  ASSERT_EQ(notes.without_vertex.size(), 1u);
  EXPECT_EQ(notes.without_vertex[0].pose, 0);
  parse_g2o(edges, "f.g2o", {.strict = true}, &notes);
  EXPECT_TRUE(notes.without_vertex.empty());
}

TEST(G2o, TextReadsBack) {
  const std::string space =
      "VERTEX_SE3:QUAT 4 0.1 0.2 0.30000000000000004 0 0 0 1\nFIX 4\n"
      "VERTEX_SE3:QUAT 5 1 2 3 0 1 0 0\n"
      "EDGE_SE3:QUAT 4 5 1 2 -3e-300 0 0 1 0" +
      kIdentity + "\n";
  EXPECT_EQ(g2o_text(parse_g2o(space, "space.g2o")), space);
  const PoseGraph plane = parse_g2o(kPlane, "plane.g2o");
  const PoseGraph again = parse_g2o(g2o_text(plane), "again.g2o");
  EXPECT_EQ(again.ids, plane.ids);
  EXPECT_EQ(again.fixed, plane.fixed);
  for (std::size_t k = 0; k < plane.size(); ++k) {
    EXPECT_EQ(again.poses[k].position, plane.poses[k].position);
    EXPECT_NEAR(again.poses[k].angle(), plane.poses[k].angle(), 1e-15);
  }
  for (std::size_t k = 0; k < plane.edges.size(); ++k) {
    EXPECT_EQ(again.edges[k].from, plane.edges[k].from);
    EXPECT_EQ(again.edges[k].to, plane.edges[k].to);
    EXPECT_EQ(again.edges[k].measured.position, plane.edges[k].measured.position);
    EXPECT_EQ(again.edges[k].information, plane.edges[k].information);
  }
}

TEST(PoseGraph, PiecesKeepAPose) {
  // Two pieces of edges, of which the second has a fixed pose, and a pose alone.
  const std::string unit = " 1 0 0 1 0 0 1 0 1\n";
  const PoseGraph graph =
      parse_g2o("EDGE_SE2 0 1" + unit + "EDGE_SE2 2 3" + unit +
                    "VERTEX_SE2 3 1 0 0\nFIX 3\nVERTEX_SE2 8 1 0 0\n" + "EDGE_SE2 5 1" + unit,
                "f.g2o");
  EXPECT_EQ(graph.ids, (std::vector<std::int64_t>{0, 1, 2, 3, 8, 5}));
  EXPECT_EQ(graph.pieces(), (std::vector<std::uint32_t>{0, 0, 1, 1, 2, 0}));
  EXPECT_EQ(graph.anchors(), (std::vector<bool>{true, false, false, true, true, false}));
}

TEST(Pose, ProductTurnsThenMoves) {
  const Pose quarter = {{1, 0, 0}, {std::sqrt(0.5), 0, 0, std::sqrt(0.5)}};
  const Pose product = quarter * Pose{{2, 0, 5}};
  EXPECT_NEAR(product.position[0], 1, 1e-15);
  EXPECT_NEAR(product.position[1], 2, 1e-15);
  EXPECT_NEAR(product.position[2], 5, 1e-15);
  const Pose back = quarter.inverse() * product;
  EXPECT_NEAR(back.position[0], 2, 1e-15);
  EXPECT_NEAR(back.rotation[0], 1, 1e-15);
}

}  // namespace
}  // namespace topograd::test
