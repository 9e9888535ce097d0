// draw_mesh: both meshes are in the picture, the caption is set, bad input is one line and
// status 2.
#include <gtest/gtest.h>
#include <png.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "../support/paths.hpp"

namespace topograd::test {
namespace {

struct Outcome {
  int status;
  std::string errors;
};

Outcome draw(const TemporaryDir& dir, const std::string& arguments) {
  const std::string log = (dir.path() / "errors").string();
  const std::string program = (program_dir() / "draw_mesh").string();
  const int status = std::system((program + " " + arguments + " 2>" + log).c_str());
  return {WEXITSTATUS(status), read_file(log)};
}

/// Share of dark pixels in a part of a PNG; columns and rows are shares of its width and height.
double ink(const std::string& file, double left, double right, double top, double bottom) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  if (png_image_begin_read_from_file(&image, file.c_str()) == 0) return -1;
  image.format = PNG_FORMAT_GRAY;
  std::vector<png_byte> bytes(PNG_IMAGE_SIZE(image));
  if (png_image_finish_read(&image, nullptr, bytes.data(), 0, nullptr) == 0) return -1;
  const auto x_begin = static_cast<std::size_t>(left * image.width);
  const auto x_end = static_cast<std::size_t>(right * image.width);
  const auto y_begin = static_cast<std::size_t>(top * image.height);
  const auto y_end = static_cast<std::size_t>(bottom * image.height);
  std::size_t dark = 0;
  for (std::size_t y = y_begin; y < y_end; ++y) {
    for (std::size_t x = x_begin; x < x_end; ++x) dark += bytes[y * image.width + x] < 240;
  }
  return static_cast<double>(dark) / static_cast<double>((x_end - x_begin) * (y_end - y_begin));
}

std::string spot() { return (source_dir() / "samples/data/spot.obj").string(); }

TEST(DrawMesh, BothMeshesAndTheirCaptionsAreThere) {
  const TemporaryDir dir;
  const std::string png = (dir.path() / "a.png").string();
  ASSERT_EQ(draw(dir, png + " " + spot() + " before " + spot() + " ''").status, 0);
  constexpr double kCaption = 0.9;  // start of captions
  EXPECT_NEAR(ink(png, 0.0, 0.5, 0.0, kCaption), 0.35, 0.1);
  EXPECT_EQ(ink(png, 0.5, 1.0, 0.0, kCaption), ink(png, 0.0, 0.5, 0.0, kCaption));
  EXPECT_GT(ink(png, 0.0, 0.5, kCaption, 1.0), 0.0);
  EXPECT_EQ(ink(png, 0.5, 1.0, kCaption, 1.0), 0.0);
}

TEST(DrawMesh, SvgHoldsTheTrianglesThatFaceTheViewer) {
  const TemporaryDir dir;
  const std::string svg = (dir.path() / "a.svg").string();
  ASSERT_EQ(draw(dir, svg + " " + spot() + " '1 < 2'").status, 0);
  const std::string text = read_file(svg);
  std::size_t triangles = 0;
  for (std::size_t at = text.find("<path "); at != text.npos; at = text.find("<path ", at + 1)) {
    ++triangles;
  }
  constexpr double kFaces = 5856;
  EXPECT_NEAR(static_cast<double>(triangles), kFaces / 2, 0.1 * kFaces);
  EXPECT_NE(text.find(">1 &lt; 2</text>"), text.npos);
}

TEST(DrawMesh, PicturesAreReplacedAsAWhole) {
  for (const char* name : {"a.svg", "a.png"}) {
    const TemporaryDir dir;
    const std::filesystem::path file = dir.path() / name, kept = dir.path() / "kept";
    std::ofstream(file) << "old";
    std::filesystem::create_hard_link(file, kept);  // detects overwriting in place
    ASSERT_EQ(draw(dir, file.string() + " " + spot() + " a").status, 0);
    EXPECT_EQ(read_file(kept), "old") << name;
    EXPECT_GT(std::filesystem::file_size(file), 3u) << name;
  }
}

TEST(DrawMesh, BadInputIsOneLineAndStatusTwo) {
  const TemporaryDir dir;
  const std::string png = (dir.path() / "a.png").string();
  const Outcome missing = draw(dir, png + " /nowhere.obj a");
  EXPECT_EQ(missing.status, 2);
  EXPECT_EQ(missing.errors, "/nowhere.obj: cannot be read: No such file or directory\n");
  const Outcome unwritable = draw(dir, "/nowhere/a.svg " + spot() + " a");
  EXPECT_EQ(unwritable.status, 2);
  EXPECT_EQ(unwritable.errors, "draw_mesh: cannot write /nowhere/a.svg\n");
  EXPECT_EQ(draw(dir, png).status, 2);
}

}  // namespace
}  // namespace topograd::test
