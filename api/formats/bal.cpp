// Reading and writing of scenes.
#include "bal.hpp"

#include "packed_text.hpp"
#include "word_reader.hpp"

#include <limits>

namespace topograd {
namespace {

// Indices of cameras and points, and 9 unknowns a camera, have 32 bits.
constexpr std::uint64_t kMostCount = std::numeric_limits<std::uint32_t>::max() / 9;
constexpr std::uint64_t kMostObservations = std::uint64_t{1} << 40;

struct Counts {
  std::uint64_t cameras = 0, points = 0, observations = 0;
};

/// A header cannot announce more numbers than the file has room for.
Counts read_counts(WordReader& reader) {
  Counts n;
  n.cameras = reader.index("the number of cameras", kMostCount);
  n.points = reader.index("the number of points", kMostCount);
  n.observations = reader.index("the number of observations", kMostObservations);
  const std::uint64_t numbers = 4 * n.observations + 9 * n.cameras + 3 * n.points;
  const std::uint64_t least = 2 * numbers;  // a digit and a space each
  if (least > reader.left() + 1) {
    reader.fail("expected " + std::to_string(numbers) + " numbers after the counts " +
                std::to_string(n.cameras) + ", " + std::to_string(n.points) + " and " +
                std::to_string(n.observations) + ", got a file that has room for " +
                std::to_string((reader.left() + 1) / 2));
  }
  return n;
}

void append_row(std::string& text, const double* numbers, std::size_t count, char separator) {
  for (std::size_t k = 0; k < count; ++k) {
    append_number(text, numbers[k]);
    text += k + 1 < count ? separator : '\n';
  }
}

}  // namespace

BundleScene parse_bal(std::string_view text, const std::string& name) {
  WordReader reader(text, name);
  const Counts n = read_counts(reader);
  BundleScene scene;
  scene.observations.reserve(n.observations);
  for (std::uint64_t k = 0; k < n.observations; ++k) {
    BundleScene::Observation o;
    o.camera = static_cast<std::uint32_t>(reader.index("the camera of an observation", n.cameras));
    o.point = static_cast<std::uint32_t>(reader.index("the point of an observation", n.points));
    for (double& x : o.seen) x = reader.number("a coordinate of an observation");
    scene.observations.push_back(o);
  }
  scene.cameras.resize(BundleScene::kCameraSize * n.cameras);
  for (double& x : scene.cameras) x = reader.number("a parameter of a camera");
  scene.points.resize(3 * n.points);
  for (double& x : scene.points) x = reader.number("a coordinate of a point");
  if (const std::string_view more = reader.word(); !more.empty())
    reader.fail("expected the end of the file, got \"" + std::string(more.substr(0, 40)) + "\"");
  return scene;
}

BundleScene read_bal(const std::string& path) { return parse_bal(read_packed_text(path), path); }

std::string bal_text(const BundleScene& scene) {
  std::string text = std::to_string(scene.camera_count()) + ' ' +
                     std::to_string(scene.point_count()) + ' ' +
                     std::to_string(scene.observations.size()) + '\n';
  for (const BundleScene::Observation& o : scene.observations) {
    text += std::to_string(o.camera) + ' ' + std::to_string(o.point) + ' ';
    append_row(text, o.seen.data(), 2, ' ');
  }
  append_row(text, scene.cameras.data(), scene.cameras.size(), '\n');
  append_row(text, scene.points.data(), scene.points.size(), '\n');
  return text;
}

std::string ply_text(const BundleScene& scene) {
  std::string text = "ply\nformat ascii 1.0\nelement vertex " +
                     std::to_string(scene.camera_count() + scene.point_count()) +
                     "\nproperty double x\nproperty double y\nproperty double z\n"
                     "property uchar red\nproperty uchar green\nproperty uchar blue\nend_header\n";
  const auto vertex = [&](const double* at, const char* color) {
    append_row(text, at, 3, ' ');
    text.back() = ' ';
    text += color;
  };
  for (std::size_t c = 0; c < scene.camera_count(); ++c)
    vertex(scene.center(c).data(), "0 255 0\n");
  for (std::size_t k = 0; k < scene.points.size(); k += 3)
    vertex(&scene.points[k], "255 255 255\n");
  return text;
}

void write_scene(const std::string& path, const BundleScene& scene) {
  write_text_file(path, path.ends_with(".ply") ? ply_text(scene) : bal_text(scene));
}

}  // namespace topograd
