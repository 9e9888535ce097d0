// Reading and writing of scenes.
#include "bal.hpp"

#include "packed_text.hpp"
#include "word_reader.hpp"

#include <limits>
#include <span>

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
  if (n.observations == 0) reader.fail("expected observations, got none");
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

/// The slice of a share of blocks of `width` numbers.
std::span<const double> part(const std::vector<double>& numbers, std::size_t width, Share share) {
  const Slice slice = share.slice(numbers.size() / width);
  return std::span(numbers).subspan(width * slice.first, width * slice.size());
}

std::string numbers_text(std::span<const double> numbers) {
  std::string text;
  append_row(text, numbers.data(), numbers.size(), '\n');
  return text;
}

std::vector<std::string> bal_texts(const BundleScene& scene, Share share,
                                   std::uint64_t observations) {
  std::vector<std::string> out(4);
  if (share.number == 0)
    out[0] = std::to_string(scene.camera_count()) + ' ' + std::to_string(scene.point_count()) +
             ' ' + std::to_string(observations) + '\n';
  for (const BundleScene::Observation& o : scene.observations) {
    out[1] += std::to_string(o.camera) + ' ' + std::to_string(o.point) + ' ';
    append_row(out[1], o.seen.data(), 2, ' ');
  }
  out[2] = numbers_text(part(scene.cameras, BundleScene::kCameraSize, share));
  out[3] = numbers_text(part(scene.points, 3, share));
  return out;
}

std::vector<std::string> ply_texts(const BundleScene& scene, Share share) {
  std::vector<std::string> out(3);
  if (share.number == 0)
    out[0] = "ply\nformat ascii 1.0\nelement vertex " +
             std::to_string(scene.camera_count() + scene.point_count()) +
             "\nproperty double x\nproperty double y\nproperty double z\n"
             "property uchar red\nproperty uchar green\nproperty uchar blue\nend_header\n";
  const auto vertex = [](std::string& text, const double* at, const char* color) {
    append_row(text, at, 3, ' ');
    text.back() = ' ';
    text += color;
  };
  const Slice cameras = share.slice(scene.camera_count()),
              points = share.slice(scene.point_count());
  for (std::size_t c = cameras.first; c < cameras.end; ++c)
    vertex(out[1], scene.center(c).data(), "0 255 0\n");
  for (std::size_t k = points.first; k < points.end; ++k)
    vertex(out[2], &scene.points[3 * k], "255 255 255\n");
  return out;
}

std::string joined(const std::vector<std::string>& texts) {
  std::string out;
  for (const std::string& text : texts) out += text;
  return out;
}

}  // namespace

BundleScene parse_bal(std::string_view text, const std::string& name, Share share) {
  WordReader reader(text, name);
  const Counts n = read_counts(reader);
  const Slice slice = share.slice(n.observations);
  BundleScene scene;
  scene.observations.reserve(slice.size());
  for (std::uint64_t k = 0; k < n.observations; ++k) {
    BundleScene::Observation o;
    o.camera = static_cast<std::uint32_t>(reader.index("the camera of an observation", n.cameras));
    o.point = static_cast<std::uint32_t>(reader.index("the point of an observation", n.points));
    for (double& x : o.seen) x = reader.number("a coordinate of an observation");
    if (slice.has(k)) scene.observations.push_back(o);
  }
  scene.cameras.resize(BundleScene::kCameraSize * n.cameras);
  for (double& x : scene.cameras) x = reader.number("a parameter of a camera");
  scene.points.resize(3 * n.points);
  for (double& x : scene.points) x = reader.number("a coordinate of a point");
  if (const std::string_view more = reader.word(); !more.empty())
    reader.fail("expected the end of the file, got \"" + std::string(more.substr(0, 40)) + "\"");
  return scene;
}

BundleScene read_bal(const std::string& path, Share share) {
  return parse_bal(read_packed_text(path), path, share);
}

std::string bal_text(const BundleScene& scene) {
  return joined(bal_texts(scene, {}, scene.observations.size()));
}

std::string ply_text(const BundleScene& scene) { return joined(ply_texts(scene, {})); }

std::vector<std::string> scene_texts(const std::string& path, const BundleScene& scene, Share share,
                                     std::uint64_t observations) {
  return path.ends_with(".ply") ? ply_texts(scene, share) : bal_texts(scene, share, observations);
}

void write_scene(const std::string& path, const BundleScene& scene) {
  write_text_file(path, joined(scene_texts(path, scene, {}, scene.observations.size())));
}

}  // namespace topograd
