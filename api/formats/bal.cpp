// Reading and writing of scenes.
#include "bal.hpp"

#include "packed_text.hpp"
#include "word_reader.hpp"

#include <Eigen/Geometry>

#include <array>
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

constexpr std::string_view kBundler = "# Bundle file";
constexpr double kOrthogonal = 1e-3;  // of R Rᵀ: files have six digits or more

/// A camera of a Bundler file: f, k1, k2, the rows of R, and t. All are 0 for one that Bundler
/// could not place.
void append_bundler_camera(WordReader& reader, std::vector<double>& cameras) {
  std::array<double, 3> lens{}, t{};
  Eigen::Matrix3d R;
  for (double& x : lens) x = reader.number("a number of a camera's lens");
  for (Eigen::Index i = 0; i < 3; ++i)
    for (Eigen::Index j = 0; j < 3; ++j) R(i, j) = reader.number("a number of a rotation");
  for (double& x : t) x = reader.number("a number of a translation");
  Eigen::Vector3d a = Eigen::Vector3d::Zero();
  if (!R.isZero(0)) {
    if (!(R * R.transpose()).isIdentity(kOrthogonal) || R.determinant() < 0)
      reader.fail("expected the matrix of a rotation, got one that is none");
    const Eigen::AngleAxisd turn(Eigen::Quaterniond(R).normalized());
    a = turn.angle() * turn.axis();
  }
  cameras.insert(cameras.end(), {a.x(), a.y(), a.z(), t[0], t[1], t[2], lens[0], lens[1], lens[2]});
}

/// The .out file of Bundler: its cameras are those of BundleScene.
BundleScene parse_bundler(WordReader& reader, Share share) {
  while (reader.rest_of_line().starts_with('#'))
    if (!reader.next_line()) reader.fail_expected("the number of cameras", "");
  const std::uint64_t cameras = reader.index("the number of cameras", kMostCount),
                      points = reader.index("the number of points", kMostCount);
  const std::uint64_t numbers = 15 * cameras + 7 * points;
  if (2 * numbers > reader.left() + 1)
    reader.fail("expected " + std::to_string(numbers) + " numbers after the counts " +
                std::to_string(cameras) + " and " + std::to_string(points) +
                ", got a file that has room for " + std::to_string((reader.left() + 1) / 2));
  BundleScene all;
  for (std::uint64_t c = 0; c < cameras; ++c) append_bundler_camera(reader, all.cameras);
  for (std::uint64_t k = 0; k < points; ++k) {
    for (int d = 0; d < 3; ++d) all.points.push_back(reader.number("a coordinate of a point"));
    for (int d = 0; d < 3; ++d) reader.index("a colour", 256);
    const std::uint64_t views = reader.index("the number of a point's views", kMostObservations);
    for (std::uint64_t v = 0; v < views; ++v) {
      BundleScene::Observation o{.point = static_cast<std::uint32_t>(k)};
      o.camera = static_cast<std::uint32_t>(reader.index("the camera of a view", cameras));
      reader.index("the key of a view", kMostObservations);
      for (double& x : o.seen) x = reader.number("a coordinate of a view");
      all.observations.push_back(o);
    }
  }
  if (all.observations.empty()) reader.fail("expected views of points, got none");
  if (share.is_whole()) return all;
  const Slice slice = share.slice(all.observations.size());
  const auto first = all.observations.begin();
  all.observations = {first + static_cast<std::ptrdiff_t>(slice.first),
                      first + static_cast<std::ptrdiff_t>(slice.end)};
  return all;
}

void expect_end(WordReader& reader) {
  if (const std::string_view more = reader.word(); !more.empty())
    reader.fail("expected the end of the file, got \"" + std::string(more.substr(0, 40)) + "\"");
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
  if (reader.rest_of_line().starts_with(kBundler)) {
    BundleScene scene = parse_bundler(reader, share);
    expect_end(reader);
    return scene;
  }
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
  expect_end(reader);
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
