// BAL files: what is read, what is refused, and where cameras see points.
#include "../../support/paths.hpp"

#include "../../../api/formats/bal.hpp"
#include "../../../api/formats/bundle_adjustment.hpp"
#include "../../../api/formats/packed_text.hpp"
#include "../../../ir/error.hpp"
#include "../../../solver/evaluator.hpp"
#include "../../../solver/solve.hpp"

#include <gtest/gtest.h>

#include <bzlib.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <string>
#include <vector>

namespace topograd::test {
namespace {

/// Two cameras that look down the negative z axis, the second one moved by (1, 0, 0), and a point
/// at depth 2. The first sees it at 100 (1 + 0.25 k1) (0.5, 0), the second without distortion.
constexpr const char* kTwoCameras =
    "2 1 2\n"
    "0 0  51 1\n"
    "1 0  3.0e0 +4\n"
    "0 0 0 0 0 0 100 0.4 0\n"
    "0 0 0 -1 0 0 100 0 0\n"
    "1 0 -2\n";

TEST(Bal, ReadsWhatCamerasSaw) {
  const BundleScene scene = parse_bal(kTwoCameras, "two.txt");
  ASSERT_EQ(scene.camera_count(), 2u);
  ASSERT_EQ(scene.point_count(), 1u);
  const std::array<double, 2> first = scene.project(0, 0), second = scene.project(1, 0);
  EXPECT_DOUBLE_EQ(first[0], 55);  // s = 0.25
  EXPECT_DOUBLE_EQ(first[1], 0);
  EXPECT_DOUBLE_EQ(second[0], 0);
  EXPECT_EQ(scene.center(1), (std::array<double, 3>{1, 0, 0}));
  const ReprojectionErrors errors = reprojection_errors(scene, 1);
  EXPECT_NEAR(errors.rmse, std::sqrt((16 + 1 + 25) / 2.0), 1e-13);
  EXPECT_NEAR(errors.median, std::sqrt(17), 1e-13);
  ASSERT_EQ(errors.worst.size(), 1u);
  EXPECT_EQ(errors.worst[0].camera, 1u);
  EXPECT_DOUBLE_EQ(errors.worst[0].pixels, 5);
}

TEST(Bal, CostIsThatOfTheProjections) {
  BundleAdjustment adjustment(parse_bal(kTwoCameras, "two.txt"));
  Evaluator evaluator(adjustment.problem(), {.backend = Backend::cpu});
  EXPECT_NEAR(evaluator.cost(), (16 + 1 + 25) / 2.0, 1e-12);
}

/// The scene of kTwoCameras in Bundler's format, with a camera that was not placed, and a camera
/// that is turned by a quarter about z.
constexpr const char* kBundler =
    "# Bundle file v0.3\n4 2\n"
    "100 0.4 0\n1 0 0\n0 1 0\n0 0 1\n0 0 0\n"
    "100 0 0\n1 0 0\n0 1 0\n0 0 1\n-1 0 0\n"
    "0 0 0\n0 0 0\n0 0 0\n0 0 0\n0 0 0\n"
    "1 0 0\n0 -1 0\n1 0 0\n0 0 1\n0 0 0\n"
    "1 0 -2\n255 0 7\n3 0 11 51 1 1 3 3.0e0 4 3 2 0 0.5\n"
    "5 5 5\n0 0 0\n0\n";

TEST(Bal, ReadsBundler) {
  const BundleScene scene = parse_bal(kBundler, "bundle.out");
  ASSERT_EQ(scene.camera_count(), 4u);
  ASSERT_EQ(scene.point_count(), 2u);
  ASSERT_EQ(scene.observations.size(), 3u);
  EXPECT_DOUBLE_EQ(scene.project(0, 0)[0], 55);
  EXPECT_DOUBLE_EQ(scene.project(1, 0)[0], 0);
  EXPECT_NEAR(scene.project(3, 0)[0], 0, 1e-15);  // (1, 0) is turned to (0, 1)
  EXPECT_DOUBLE_EQ(scene.project(3, 0)[1], 0.5);
  EXPECT_EQ(scene.observations[2].camera, 3u);
  EXPECT_EQ(scene.observations[1].seen, (std::array<double, 2>{3, 4}));
  EXPECT_EQ(parse_bal(kBundler, "bundle.out", {.number = 1, .of = 2}).observations.size(), 1u);
  EXPECT_EQ(bal_text(parse_bal("\xef\xbb\xbf" + std::string(kBundler), "bundle.out")),
            bal_text(scene));
}

TEST(Bal, RefusesBundlerThatIsWrong) {
  struct Change {
    const char *from, *to, *expected;
  };
  const Change rows[] = {
      {"4 2\n", "400 2\n", "expected 6014 numbers after the counts 400 and 2"},
      {"0 -1 0", "0 -2 0", "expected the matrix of a rotation"},
      {"0 -1 0", "0 1 0", "expected the matrix of a rotation"},
      {"3 2 0 0.5", "4 2 0 0.5", "bundle.out:25: expected the camera of a view in 0 .. 3"},
      {"255", "256", "expected a colour in 0 .. 255"},
      {"0 0 0\n0\n", "0 0 0\n1\n", "expected the camera of a view"},
      {"0 0 0\n0\n", "0 0 0\n0 9\n", "expected the end of the file, got \"9\""},
      {"4 2\n", "4\n", "expected"},
  };
  for (const Change& row : rows) {
    std::string text = kBundler;
    const std::size_t at = text.rfind(row.from);
    ASSERT_NE(at, std::string::npos);
    text.replace(at, std::string(row.from).size(), row.to);
    try {
      (void)parse_bal(text, "bundle.out");
      ADD_FAILURE() << row.to;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::Parse);
      EXPECT_NE(std::string(error.what()).find(row.expected), std::string::npos) << error.what();
    }
  }
}

struct Bad {
  std::string text;
  const char* expected;
};

TEST(Bal, ErrorsNameFileAndLine) {
  const Bad rows[] = {
      {"", "f.txt:1: expected the number of cameras as a whole number, got the end of the file"},
      {"2 1", "f.txt:1: expected the number of observations as a whole number, got the end"},
      {"2 -1 2", "f.txt:1: expected the number of points as a whole number, got \"-1\""},
      {"1.5 1 2", "expected the number of cameras as a whole number, got \"1.5\""},
      {"99999999999 1 2", "expected the number of cameras in 0 .. "},
      {"1 1 0\n0 0 0 0 0 0 1 0 0\n0 0 -1\n", "f.txt:1: expected observations, got none"},
      {"2 1 1000000000\n0 0 1 1\n", "f.txt:1: expected 4000000021 numbers after the counts"},
      {"1 1 1\n1 0 1 1\n0 0 0 0 0 0 1 0 0\n0 0 -1\n",
       "f.txt:2: expected the camera of an observation in 0 .. 0, got \"1\""},
      {"1 1 1\n0 7 1 1\n0 0 0 0 0 0 1 0 0\n0 0 -1\n",
       "f.txt:2: expected the point of an observation in 0 .. 0, got \"7\""},
      {"1 1 1\n0 0 nan 1\n0 0 0 0 0 0 1 0 0\n0 0 -1\n",
       "f.txt:2: expected a coordinate of an observation as a finite number, got \"nan\""},
      {"1 1 1\n0 0 1 1\n0 0 0 0 0 0 1 0 0\n0 1e999 -1\n",
       "f.txt:4: expected a coordinate of a point as a finite number, got \"1e999\""},
      {"1 1 1\n0 0 1 1\n0 0 0 0 0 0 1 0 x\n0 0 -1\n",
       "f.txt:3: expected a parameter of a camera as a finite number, got \"x\""},
      {"1 1 1\n0 0 1 1\n0 0 0 0 0 0 1 0 0\n0 0 \n",
       "expected a coordinate of a point as a finite number, got the end of the file"},
      {"1 1 1\n0 0 1 1\n0 0 0 0 0 0 1 0 0\n0 0 -1\n 5",
       "f.txt:5: expected the end of the file, got \"5\""},
  };
  for (const Bad& row : rows) {
    try {
      parse_bal(row.text, "f.txt");
      ADD_FAILURE() << row.text;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::Parse);
      EXPECT_NE(std::string(error.what()).find(row.expected), std::string::npos)
          << error.what() << "\nexpected " << row.expected;
    }
  }
}

TEST(Bal, TextReadsBackToTheSameBits) {
  BundleScene scene = parse_bal(kTwoCameras, "two.txt");
  scene.cameras[7] = 0.1 + 0.2;
  scene.points[0] = -0x1.fffffffffffffp-1022;
  const BundleScene again = parse_bal(bal_text(scene), "again.txt");
  EXPECT_EQ(again.cameras, scene.cameras);
  EXPECT_EQ(again.points, scene.points);
  EXPECT_EQ(again.observations[0].seen, scene.observations[0].seen);
  const std::string ply = ply_text(scene);
  EXPECT_NE(ply.find("element vertex 3\n"), std::string::npos);
  EXPECT_NE(ply.find("1 0 0 0 255 0\n"), std::string::npos) << ply;  // the second camera
}

std::string bzipped(const std::string& text) {
  std::string out(2 * text.size() + 1000, '\0');
  auto size = static_cast<unsigned>(out.size());
  std::string copy = text;
  EXPECT_EQ(BZ2_bzBuffToBuffCompress(out.data(), &size, copy.data(),
                                     static_cast<unsigned>(copy.size()), 9, 0, 0),
            BZ_OK);
  out.resize(size);
  return out;
}

void write_gzip(const std::filesystem::path& path, const std::string& text) {
  gzFile file = gzopen(path.c_str(), "wb");
  EXPECT_EQ(gzwrite(file, text.data(), static_cast<unsigned>(text.size())),
            static_cast<int>(text.size()));
  gzclose(file);
}

std::string error_of(const std::string& path, std::uint64_t most = kMostUnpackedBytes) {
  try {
    read_packed_text(path, most);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::File);
    return error.what();
  }
  return "no error";
}

TEST(Bal, FilesMayBePacked) {
  const TemporaryDir folder;
  const auto path = [&](const char* name) { return (folder.path() / name).string(); };
  std::string text;
  for (int k = 0; k < 300'000; ++k) text += std::to_string(k) + ' ';
  std::ofstream(path("plain"), std::ios::binary) << text;
  write_gzip(path("gz"), text);
  // A file of two streams, as pbzip2 writes them.
  std::ofstream(path("bz2"), std::ios::binary)
      << bzipped(text.substr(0, 1000)) << bzipped(text.substr(1000));
  for (const char* name : {"plain", "gz", "bz2"}) {
    EXPECT_EQ(read_packed_text(path(name)), text) << name;
    EXPECT_NE(error_of(path(name), 1000).find("longer than 1000 bytes"), std::string::npos);
  }
  for (const char* name : {"gz", "bz2"}) {
    const std::string whole = read_file(path(name));
    std::ofstream(path("cut"), std::ios::binary) << whole.substr(0, whole.size() / 2);
    EXPECT_NE(error_of(path("cut")).find("damaged or end too early"), std::string::npos) << name;
  }
  // 100 MB of zeros pack to 100 kB.
  write_gzip(path("zeros"), std::string(100'000'000, '0'));
  std::ofstream(path("zeros.bz2"), std::ios::binary) << bzipped(std::string(100'000'000, '0'));
  for (const char* name : {"zeros", "zeros.bz2"})
    EXPECT_NE(error_of(path(name)).find("longer than 67108864 bytes"), std::string::npos);
  EXPECT_NE(error_of(path("none")).find("cannot be read"), std::string::npos);
  EXPECT_NE(error_of(folder.path().string()).find("got a folder"), std::string::npos);
  std::ofstream(path("empty"));
  EXPECT_EQ(read_packed_text(path("empty")), "");
}

TEST(Bal, FilesMayBePipes) {
  std::string text;
  for (int k = 0; k < 2000; ++k) text += std::to_string(k) + ' ';
  const auto through_a_pipe = [](const std::string& bytes) {
    std::array<int, 2> ends{};
    EXPECT_EQ(pipe(ends.data()), 0);
    EXPECT_EQ(write(ends[1], bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
    close(ends[1]);
    const std::string path = "/dev/fd/" + std::to_string(ends[0]);
    std::string out;
    try {
      out = read_packed_text(path);
    } catch (const Error& error) {
      out = error.what();
    }
    close(ends[0]);
    return out;
  };
  EXPECT_EQ(through_a_pipe(text), text);
  EXPECT_EQ(through_a_pipe("7"), "7");
  EXPECT_NE(through_a_pipe(bzipped(text)).find("plain text from a pipe, got packed text"),
            std::string::npos);
}

TEST(BundleAdjustment, FramesChangeNoProjection) {
  BundleScene scene = parse_bal(kTwoCameras, "two.txt");
  scene.points = {1, 0.5, -2};
  scene.cameras[1] = 0.3;
  const std::array<double, 2> before = scene.project(0, 0);
  BundleScene moved = scene;
  const SceneFrame frame = {{10, -20, 30}, 0.125};
  enter_frame(moved, frame);
  EXPECT_DOUBLE_EQ(moved.points[0], (1 - 10) * 0.125);
  EXPECT_NEAR(moved.project(0, 0)[0], before[0], 1e-11);
  EXPECT_NEAR(moved.project(0, 0)[1], before[1], 1e-11);
  leave_frame(moved, frame);
  for (std::size_t k = 0; k < scene.cameras.size(); ++k)
    EXPECT_NEAR(moved.cameras[k], scene.cameras[k], 1e-13);
  EXPECT_EQ(median_frame(scene), (SceneFrame{{1, 0.5, -2}, 1}));  // of no extent
}

TEST(BundleAdjustment, FixedPartsStay) {
  struct Row {
    std::vector<std::string> fixed;
    std::vector<std::size_t> cameras;  // coordinates of a camera that stay
    bool points;
  };
  const Row rows[] = {{{"k2"}, {8}, false},
                      {{"f", "k1=0"}, {6, 7}, false},
                      {{"rotation", "translation"}, {0, 1, 2, 3, 4, 5}, false},
                      {{"cameras"}, {0, 1, 2, 3, 4, 5, 6, 7, 8}, false},
                      {{"points"}, {}, true}};
  for (const Row& row : rows) {
    BundleAdjustment adjustment(parse_bal(kTwoCameras, "two.txt"), {.fixed = row.fixed});
    const std::span<const std::uint8_t> mask = adjustment.problem().constant_mask();
    ASSERT_EQ(mask.size(), 21u);
    for (std::size_t k = 0; k < 18; ++k)
      EXPECT_EQ(mask[k] != 0, std::ranges::find(row.cameras, k % 9) != row.cameras.end()) << k;
    for (std::size_t k = 18; k < 21; ++k) EXPECT_EQ(mask[k] != 0, row.points);
  }
  BundleAdjustment set(parse_bal(kTwoCameras, "two.txt"), {.fixed = {"k1=0.5"}});
  EXPECT_EQ(set.scene().cameras[7], 0.5);
  EXPECT_EQ(set.scene().cameras[16], 0.5);
  for (const char* bad : {"k3", "f=x", "rotation=1", ""})
    EXPECT_THROW(BundleAdjustment(parse_bal(kTwoCameras, "two.txt"), {.fixed = {bad}}), Error)
        << bad;
  EXPECT_THROW(BundleAdjustment(BundleScene{}), Error);
  BundleScene wrong = parse_bal(kTwoCameras, "two.txt");
  wrong.observations[1].camera = 2;
  EXPECT_THROW(BundleAdjustment(std::move(wrong)), Error);
}

/// Points on a sphere seen by cameras around it, with exact observations.
BundleScene small_scene() {
  BundleScene scene;
  constexpr int kCameras = 5, kPoints = 30;
  for (int c = 0; c < kCameras; ++c) {
    const double turn = 0.3 * c;
    scene.cameras.insert(scene.cameras.end(), {0, turn, 0, 0, 0, -6, 500, 0.02, 0.001});
  }
  for (int k = 0; k < kPoints; ++k)
    scene.points.insert(scene.points.end(),
                        {std::sin(1.7 * k), std::cos(2.3 * k), std::sin(3.1 * k + 1)});
  for (std::uint32_t c = 0; c < kCameras; ++c)
    for (std::uint32_t k = 0; k < kPoints; ++k)
      scene.observations.push_back({c, k, scene.project(c, k)});
  return scene;
}

TEST(BundleAdjustment, FindsTheSceneInEitherFrame) {
  for (const bool normalize : {false, true}) {
    BundleScene start = small_scene();
    const std::vector<double> truth = start.points;
    for (std::size_t k = 0; k < start.points.size(); ++k)
      start.points[k] += 0.05 * std::sin(static_cast<double>(k));
    BundleAdjustment adjustment(std::move(start), {.fixed = {"cameras"}, .normalize = normalize});
    EXPECT_EQ(adjustment.frame() == SceneFrame{}, !normalize);
    solve(adjustment.problem(), {.backend = Backend::cpu, .function_tolerance = 0});
    const BundleScene found = adjustment.scene();
    for (std::size_t k = 0; k < truth.size(); ++k) EXPECT_NEAR(found.points[k], truth[k], 1e-9);
    EXPECT_LT(adjustment.errors().rmse, 1e-7);
  }
}

TEST(BundleAdjustment, TakesResidualsOfOnesOwn) {
  BundleAdjustment adjustment(small_scene(), {.loss = Loss::huber(1)});
  const std::size_t before = adjustment.problem().residual_count();
  adjustment.problem().add_residual(adjustment.points().vec3(0).x - 0.5);
  EXPECT_EQ(adjustment.problem().residual_count(), before + 1);
}

}  // namespace
}  // namespace topograd::test
