// Colours of meshes, and films.
#include <gtest/gtest.h>
#include <png.h>

#include <cmath>
#include <string>
#include <vector>

#include "../../tools/draw/canvas.hpp"
#include "../../tools/draw/scene.hpp"
#include "../support/paths.hpp"

namespace topograd::draw {
namespace {

constexpr std::array<std::array<std::uint32_t, 3>, 4> kFaces = {
    {{0, 2, 1}, {0, 1, 3}, {1, 2, 3}, {2, 0, 3}}};

Mesh tetrahedron(std::vector<double> values, double lift = 0) {
  const std::vector<double> positions = {0, 0, 0, 1, 0, 0, 0, 0, -1, 0, 1 + lift, 0};
  return make_mesh(positions, kFaces, std::move(values));
}

/// Ratio of red to blue light in the corners of a panel: largest and smallest.
std::pair<double, double> warmth(const Panel& panel) {
  double most = 0, least = 1e300;
  for (const auto& triangle : panel.triangles) {
    for (const Corner& corner : triangle) {
      most = std::max(most, corner.color[0] / corner.color[2]);
      least = std::min(least, corner.color[0] / corner.color[2]);
    }
  }
  return {most, least};
}

TEST(Scene, ValuesAreSharesOfTheFirstMeshsLargest) {
  const std::vector<double> none(4, 0.0), all(4, 2.0), half(4, 1.0), more(4, 9.0);
  const Sheet sheet =
      lay_out({tetrahedron(all), tetrahedron(none), tetrahedron(half), tetrahedron(more)},
              {"", "", "", ""});
  const double hot = warmth(sheet.panels[0]).first, cold = warmth(sheet.panels[1]).first;
  EXPECT_GT(hot, 5);
  EXPECT_LT(cold, 1);
  EXPECT_GT(warmth(sheet.panels[2]).first, cold);
  EXPECT_LT(warmth(sheet.panels[2]).first, hot);
  EXPECT_EQ(warmth(sheet.panels[3]).first, hot);
}

TEST(Scene, WithoutValuesMovedVerticesAreTinted) {
  const Sheet sheet = lay_out({tetrahedron({}), tetrahedron({}, 0.5)}, {"", ""});
  EXPECT_LT(warmth(sheet.panels[0]).first, 1);
  EXPECT_GT(warmth(sheet.panels[1]).first, 5);  // the top
  EXPECT_LT(warmth(sheet.panels[1]).second, 1);
}

/// Six times the volume that the triangles of a closed mesh enclose; without its two ends, a prism
/// around the origin encloses two thirds of its own.
double volume(const Mesh& mesh) {
  double sum = 0;
  for (const auto& [i, j, k] : mesh.triangles) {
    const Vec3 &a = mesh.positions[i], &b = mesh.positions[j], &c = mesh.positions[k];
    sum += a[0] * (b[1] * c[2] - b[2] * c[1]) + a[1] * (b[2] * c[0] - b[0] * c[2]) +
           a[2] * (b[0] * c[1] - b[1] * c[0]);
  }
  return sum;
}

TEST(Scene, MarksAreSolidsAroundPointsAndLines) {
  // A regular tetrahedron in a sphere of radius r has the volume 8 r³ / (9 √3).
  const double tetrahedron = 6 * 8 * 8 / (9 * std::sqrt(3.0));
  const std::vector<double> point = {0, 0, 0}, points = {1, 2, 3, -1, -2, -3};
  const Mesh one = make_marks(point, {}, 2), two = make_marks(points, {}, 2);
  EXPECT_EQ(one.positions.size(), 4u);
  EXPECT_NEAR(volume(one), tetrahedron, 1e-12);
  EXPECT_NEAR(volume(two), 2 * tetrahedron, 1e-12);

  // A triangle with the circumradius r / 2 has the area 3 √3 r² / 16.
  const std::vector<std::array<std::uint32_t, 2>> lines = {{0, 1}, {1, 0}};
  const double prism = 4 * (3 * std::sqrt(3.0) * 4 / 16) * 2 * std::sqrt(14.0);
  const Mesh net = make_marks(points, lines, 2);
  EXPECT_EQ(net.positions.size(), 8u + 12u);
  EXPECT_NEAR(volume(net), 2 * tetrahedron + 2 * prism, 1e-12);

  // A line without length encloses nothing.
  const std::vector<double> same = {1, 1, 1, 1, 1, 1};
  EXPECT_NEAR(volume(make_marks(same, lines, 2)), 2 * tetrahedron, 1e-12);
}

std::uint32_t big_endian(std::string_view bytes) {
  std::uint32_t value = 0;
  for (const char byte : bytes.substr(0, 4)) value = value << 8 | static_cast<unsigned char>(byte);
  return value;
}

TEST(Canvas, FilmsHaveAllFramesInOrder) {
  const std::vector<Sheet> sheets = lay_out_frames(
      {tetrahedron({}), tetrahedron({}, 0.2), tetrahedron({}, 0.4)}, {"a", "b", "c"}, 0.25);
  ASSERT_EQ(sheets.size(), 3u);
  EXPECT_EQ(sheets[0].width, 160);
  const std::string film = animated_png(sheets, 40);
  // libpng reads the first frame and checks the checksums of chunks that it knows.
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  ASSERT_NE(png_image_begin_read_from_memory(&image, film.data(), film.size()), 0);
  image.format = PNG_FORMAT_RGB;
  std::vector<png_byte> pixels(PNG_IMAGE_SIZE(image));
  EXPECT_NE(png_image_finish_read(&image, nullptr, pixels.data(), 0, nullptr), 0);
  EXPECT_EQ(image.warning_or_error, 0u) << image.message;
  std::string order;
  std::uint32_t next = 0;  // fcTL and fdAT share one count
  for (std::size_t at = 8; at < film.size();) {
    const std::uint32_t size = big_endian(std::string_view(film).substr(at));
    const std::string kind = film.substr(at + 4, 4);
    order += kind + " ";
    const std::uint32_t number = big_endian(std::string_view(film).substr(at + 8));
    if (kind == "acTL") {
      EXPECT_EQ(number, 3u);
    } else if (kind == "fcTL" || kind == "fdAT") {
      EXPECT_EQ(number, next++);
    }
    at += 12 + std::size_t{size};
  }
  EXPECT_EQ(order, "IHDR acTL fcTL IDAT fcTL fdAT fcTL fdAT IEND ");
  EXPECT_THROW(animated_png({}, 40), std::runtime_error);
}

}  // namespace
}  // namespace topograd::draw
