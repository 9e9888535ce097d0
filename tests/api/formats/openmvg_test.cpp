// OpenMVG's scenes: what is read, and what is written back.
#include "../../../api/formats/openmvg.hpp"
#include "../../../api/formats/colmap_problem.hpp"
#include "../../../ir/error.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <string>
#include <utility>

namespace topograd::test {
namespace {

/// Two poses half a turn about y apart, three views of which one has no pose, and a point that both
/// others see; the second camera's class is named beside the first one.
const std::string kScene =
    R"({"sfm_data_version": "0.3", "views": [
{"key": 4, "value": {"polymorphic_id": 1073741824, "ptr_wrapper": {"id": 2147483649, "data": {"filename": "a.jpg", "id_view": 4, "id_intrinsic": 2, "id_pose": 9}}}},
{"key": 5, "value": {"polymorphic_id": 1073741824, "ptr_wrapper": {"id": 2147483650, "data": {"filename": "b 1.jpg", "id_view": 5, "id_intrinsic": 3, "id_pose": 8}}}},
{"key": 6, "value": {"polymorphic_id": 1073741824, "ptr_wrapper": {"id": 2147483651, "data": {"filename": "c.jpg", "id_view": 6, "id_intrinsic": 3, "id_pose": 4294967295}}}}],
"intrinsics": [
{"key": 2, "value": {"polymorphic_id": 2147483649, "polymorphic_name": "pinhole_radial_k3", "ptr_wrapper": {"id": 2147483652, "data": {"width": 640, "height": 480, "focal_length": 500.50, "principal_point": [320, 240.0], "disto_k3": [-0, 0.25, 1e-3]}}}},
{"key": 3, "value": {"polymorphic_id": 1, "ptr_wrapper": {"id": 2147483653, "data": {"value0": {"width": 640, "height": 480, "principal_point": [320, 240], "focal_length": 400}, "disto_k3": [0, 0, 0]}}}}],
"extrinsics": [
{"key": 9, "value": {"rotation": [[1, 0, 0], [0, 1, 0], [0, 0, 1]], "center": [0, 0, -4]}},
{"key": 8, "value": {"rotation": [[-1.0, 0, 0], [0, 1, 0], [0, 0, -1]], "center": [0, 0.5, 4]}}],
"structure": [
{"key": 70, "value": {"X": [1, 0.5, 0], "observations": [{"key": 5, "value": {"id_feat": 3, "x": [220, 241]}}, {"key": 4, "value": {"id_feat": 1, "x": [446.0, 303]}}]}}],
"control_points": [{"key": 1, "value": {"X": [7, 7, 7], "observations": []}}]})";

TEST(OpenMvg, ReadsAScene) {
  const ColmapModel model = parse_openmvg(kScene, "scene").model;
  ASSERT_EQ(model.cameras.size(), 2u);
  for (const ColmapModel::Camera& camera : model.cameras)
    EXPECT_EQ(camera.model, CameraModel::PINHOLE_RADIAL_K3);
  EXPECT_EQ(model.cameras[0].parameters, (std::vector<double>{500.5, 320, 240, 0, 0.25, 1e-3}));
  EXPECT_EQ(model.cameras[1].parameters, (std::vector<double>{400, 320, 240, 0, 0, 0}));
  ASSERT_EQ(model.images.size(), 2u);
  EXPECT_EQ(model.images[1].name, "b 1.jpg");
  EXPECT_EQ(model.images[1].id, 5u);
  EXPECT_EQ(model.center(1), (std::array<double, 3>{0, 0.5, 4}));
  ASSERT_EQ(model.observations.size(), 2u);
  EXPECT_EQ(model.observations[0].image, 1u);
  // x = −(1 − 0) / 4, and no distortion.
  EXPECT_NEAR(model.project(model.observations[0])[0], 320 - 400.0 / 4, 1e-12);
  // s = (1² + 0.5²) / 4², 1 + 0.25 s² + 0.001 s³.
  const double s = 1.25 / 16, factor = 1 + s * s * (0.25 + 1e-3 * s);
  EXPECT_NEAR(model.project(model.observations[1])[1], 240 + 500.5 * factor * 0.125, 1e-12);
}

// Matrices of few digits are rotations, too, and mirrors are none.
TEST(OpenMvg, RotationsMayHaveFewDigits) {
  const auto with = [](const std::string& rotation) {
    std::string text = kScene;
    const std::string unit = "[[1, 0, 0], [0, 1, 0], [0, 0, 1]]";
    return parse_openmvg(text.replace(text.find(unit), unit.size(), rotation), "scene").model;
  };
  const ColmapModel model = with("[[0.7071, -0.7071, 0], [0.7071, 0.7071, 0], [0, 0, 0.9999]]");
  EXPECT_NEAR(model.frames[0].pose.rotation[0], std::cos(std::acos(-1) / 8), 1e-4);
  EXPECT_NEAR(model.frames[0].pose.rotation[3], std::sin(std::acos(-1) / 8), 1e-4);
  EXPECT_THROW(with("[[1, 0, 0], [0, 1, 0], [0, 0, -1]]"), Error);
  EXPECT_THROW(with("[[1, 0, 0], [0, 1, 0], [0, 0.01, 1]]"), Error);
}

TEST(OpenMvg, IdsAreWholeNumbersOf32Bits) {
  for (const char* const id : {"-1", "2.5", "4294967296", "-0.5"}) {
    std::string text = kScene;
    const std::string pose = "\"key\": 8, \"value\": {\"rotation\"";
    text.replace(text.find(pose) + 7, 1, id);
    try {
      parse_openmvg(text, "scene");
      ADD_FAILURE() << id;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("a whole number of 32 bits"), std::string::npos)
          << error.what();
    }
  }
}

TEST(OpenMvg, NamesOfUnknownCamerasAreShownWithoutControls) {
  std::string text = kScene;
  const std::string known = "pinhole_radial_k3";
  text.replace(text.find(known), known.size(), "my\\tlens 1");
  try {
    parse_openmvg(text, "scene");
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("\"my?lens 1\""), std::string::npos) << error.what();
  }
}

TEST(OpenMvg, NamesOfUnknownCamerasAreCutShort) {
  std::string text = kScene;
  const std::string known = "pinhole_radial_k3";
  text.replace(text.find(known), known.size(), std::string(1000, 'x'));
  try {
    parse_openmvg(text, "scene");
    ADD_FAILURE();
  } catch (const Error& error) {
    const std::string message = error.what();
    EXPECT_NE(message.find('"' + std::string(40, 'x') + '"'), std::string::npos) << message;
  }
}

TEST(OpenMvg, WritesWhatHasChanged) {
  const OpenMvgScene scene = parse_openmvg(kScene, "scene");
  EXPECT_EQ(openmvg_text(scene.model, *scene.file), kScene);
  ColmapModel model = scene.model;
  model.cameras[0].parameters[0] = 501;
  model.cameras[1].parameters[5] = 1.0 / 3;
  model.points[2] = -2.5;
  std::string expected = kScene;
  for (const auto& [old, now] : {std::pair<std::string, std::string>{"500.50", "501"},
                                 {"[0, 0, 0]}}}}]", "[0, 0, 0.3333333333333333]}}}}]"},
                                 {"\"X\": [1, 0.5, 0]", "\"X\": [1, 0.5, -2.5]"}})
    expected.replace(expected.find(old), old.size(), now);
  EXPECT_EQ(openmvg_text(model, *scene.file), expected);
  // A pose is a matrix there.
  const double angle = 0.5;
  model = scene.model;
  model.frames[0].pose = {{0.25, -1, 3}, {std::cos(angle / 2), 0, 0, std::sin(angle / 2)}};
  const std::string turned = openmvg_text(model, *scene.file);
  const ColmapModel again = parse_openmvg(turned, "again").model;
  for (std::size_t k = 0; k < 4; ++k)
    EXPECT_NEAR(again.frames[0].pose.rotation[k], model.frames[0].pose.rotation[k], 1e-15);
  for (std::size_t k = 0; k < 3; ++k)
    EXPECT_NEAR(again.frames[0].pose.position[k], model.frames[0].pose.position[k], 1e-14);
  EXPECT_NE(
      turned.find("{\"key\": 8, \"value\": {\"rotation\": [[-1.0, 0, 0], [0, 1, 0], [0, 0, -1]]"),
      std::string::npos);
}

TEST(OpenMvg, RefusesModelsOfOtherScenes) {
  const OpenMvgScene scene = parse_openmvg(kScene, "scene");
  for (const auto& change : {+[](ColmapModel& m) { m.cameras.pop_back(); },
                             +[](ColmapModel& m) { m.cameras[0].parameters.pop_back(); },
                             +[](ColmapModel& m) { m.frames.pop_back(); },
                             +[](ColmapModel& m) { m.points.pop_back(); }}) {
    ColmapModel model = scene.model;
    change(model);
    try {
      openmvg_text(model, *scene.file);
      ADD_FAILURE();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::InvalidArgument);
    }
  }
  // It has no files of COLMAP.
  EXPECT_THROW(colmap_files(scene.model), Error);
}

}  // namespace
}  // namespace topograd::test
