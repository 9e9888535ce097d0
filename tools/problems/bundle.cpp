// bundle(cameras, points): synthetic bundle adjustment with a known answer.
#include "bundle.hpp"

#include "../../api/formats/bundle_adjustment.hpp"
#include "../../ir/error.hpp"
#include "../../ir/hash.hpp"
#include "../../ir/machine/parallel.hpp"

#include <Eigen/Geometry>

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <string>

namespace topograd::problems {
namespace {

constexpr std::size_t kCamera = BundleScene::kCameraSize;

/// Random numbers that are the same on every machine: splitmix64 (Steele, Lea, Flood 2014).
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() { return ir::mix64(state_ += 0x9e3779b97f4a7c15); }
  double unit() { return static_cast<double>(next() >> 11) * 0x1p-53; }  ///< [0, 1)
  double both() { return 2 * unit() - 1; }                               ///< [−1, 1)

 private:
  std::uint64_t state_;
};

void check(const BundleOptions& o) {
  const auto refuse = [](const std::string& expected, std::uint64_t got) {
    throw Error(ErrorCode::InvalidArgument,
                "bundle: expected " + expected + ", got " + std::to_string(got));
  };
  if (o.cameras < 2) refuse("2 cameras or more", o.cameras);
  if (o.points < 4) refuse("4 points or more", o.points);
  const std::uint64_t cameras = o.cameras, points = o.points;
  const std::uint64_t least = std::max(2 * points, (kCamera * cameras + 3 * points) / 2);
  if (least > cameras * points) {  // 2 C P rows are fewer than 9 C + 3 P unknowns
    const std::uint64_t ceiled = (kCamera * cameras + 2 * cameras - 4) / (2 * cameras - 3);
    refuse(std::to_string(ceiled) + " points or more with " + std::to_string(cameras) + " cameras",
           points);
  }
  if (o.observations < least || o.observations > cameras * points)
    refuse("observations in " + std::to_string(least) + " .. " + std::to_string(cameras * points),
           o.observations);
  if (!(o.noise >= 0 && std::isfinite(o.noise)))
    throw Error(ErrorCode::InvalidArgument, "bundle: expected noise >= 0");
}

Eigen::Matrix3d rotation(const double* axis_angle) {
  const Eigen::Vector3d a(axis_angle[0], axis_angle[1], axis_angle[2]);
  const double angle = a.norm();
  if (angle == 0) return Eigen::Matrix3d::Identity();
  return Eigen::AngleAxisd(angle, a / angle).toRotationMatrix();
}

void place_cameras(Bundle& out, std::uint32_t count, Random& random) {
  for (std::uint32_t i = 0; i < count; ++i) {
    const double phi = 2 * std::numbers::pi * i / count - std::numbers::pi;
    std::array<double, kCamera> camera{};
    for (std::size_t k = 0; k < 3; ++k) camera[k] = 0.05 * random.both();
    camera[1] -= phi;
    Eigen::Vector3d c(5 * std::sin(phi), 0.5 * std::sin(3 * phi), 5 * std::cos(phi));
    for (Eigen::Index k = 0; k < 3; ++k) c[k] += 0.2 * random.both();
    const Eigen::Vector3d t = -rotation(camera.data()) * c;
    for (Eigen::Index k = 0; k < 3; ++k) camera[static_cast<std::size_t>(3 + k)] = t[k];
    camera[6] = 1000 * (1 + 0.1 * random.both());
    camera[7] = 0.05 * random.both();
    camera[8] = 0.01 * random.both();
    out.true_cameras.insert(out.true_cameras.end(), camera.begin(), camera.end());
  }
}

void perturb(Bundle& out, Random& random) {
  constexpr std::array kAmounts = {0.01, 0.01, 0.01, 0.05, 0.05, 0.05};
  out.cameras = out.true_cameras;
  for (std::size_t i = 0; i < out.cameras.size(); i += kCamera) {
    for (std::size_t k = 0; k < kAmounts.size(); ++k)
      out.cameras[i + k] += kAmounts[k] * random.both();
    out.cameras[i + 6] *= 1 + 0.02 * random.both();
    out.cameras[i + 7] = out.cameras[i + 8] = 0;
  }
  out.points = out.true_points;
  for (double& x : out.points) x += 0.05 * random.both();
}

/// Two standard normal numbers (Box and Muller 1958).
std::array<double, 2> normal(Random& random) {
  const double radius = std::sqrt(-2 * std::log(1 - random.unit()));
  const double angle = 2 * std::numbers::pi * random.unit();
  return {radius * std::cos(angle), radius * std::sin(angle)};
}

using Observations = std::vector<BundleScene::Observation>;

/// Cameras all around see a point: (first + r step) mod cameras for r = 0, 1, ...
Observations spread_views(const BundleOptions& o, Slice slice, Random& random) {
  struct Visibility {
    std::uint32_t first = 0, step = 1;
  };
  const std::uint32_t views = (o.observations + o.points - 1) / o.points;
  const std::uint32_t steps = std::max(1u, o.cameras / views);
  std::vector<Visibility> seen(o.points);
  for (Visibility& v : seen) {
    v.first = static_cast<std::uint32_t>(random.next() % o.cameras);
    v.step = 1 + static_cast<std::uint32_t>(random.next() % steps);
  }
  Observations out;
  out.reserve(slice.size());
  for (std::uint64_t k = slice.first; k < slice.end; ++k) {
    const auto point = static_cast<std::uint32_t>(k % o.points);
    const std::uint64_t camera = seen[point].first + k / o.points * seen[point].step;
    out.push_back({static_cast<std::uint32_t>(camera % o.cameras), point, {}});
  }
  return out;
}

/// Numbers of cameras that see a point, as many in all as there are observations.
std::vector<std::uint32_t> valences(const BundleOptions& o, Random& random) {
  const double mean = static_cast<double>(o.observations) / o.points;
  const std::uint32_t most = o.cameras / 8;
  std::vector<std::uint32_t> out(o.points);
  std::uint64_t sum = 0;
  for (std::uint32_t& v : out) {
    const double tail = 2 * std::pow(1 - random.unit(), -(mean - 2) / mean);
    v = static_cast<std::uint32_t>(std::min<double>(most, tail));
    sum += v;
  }
  for (std::size_t j = 0; sum != o.observations; j = (j + 1) % out.size()) {
    if (sum < o.observations && out[j] < most) ++out[j], ++sum;
    if (sum > o.observations && out[j] > 2) --out[j], --sum;
  }
  return out;
}

/// Neighbouring cameras see a point; few points are seen by many cameras.
Observations neighbouring_views(const BundleOptions& o, Slice slice, Random& random) {
  const std::vector<std::uint32_t> counts = valences(o, random);
  Observations out;
  out.reserve(slice.size());
  std::uint64_t number = 0;
  for (std::uint32_t j = 0; j < o.points; ++j) {
    const std::uint64_t first = random.next() % o.cameras;
    const double width = std::max(4 * counts[j], o.cameras / 32) / static_cast<double>(counts[j]);
    for (std::uint32_t r = 0; r < counts[j]; ++r) {
      const auto ahead = static_cast<std::uint64_t>((r + random.unit()) * width);
      if (!slice.has(number++)) continue;
      out.push_back({static_cast<std::uint32_t>((first + ahead) % o.cameras), j, {}});
    }
  }
  return out;
}

/// Cameras from which on a scene is like a collection of photographs.
constexpr std::uint32_t kCollection = 1000;

struct Rms {
  double sum = 0, largest = 0;
  void add(double distance) {
    sum += distance * distance;
    largest = std::max(largest, distance);
  }
  double mean(std::size_t count) const { return std::sqrt(sum / static_cast<double>(count)); }
};

}  // namespace

std::unique_ptr<Bundle> bundle(const BundleOptions& o, Share share) {
  check(o);
  Random random(o.seed);
  auto out = std::make_unique<Bundle>();
  place_cameras(*out, o.cameras, random);
  for (std::size_t k = 0; k < 3 * std::size_t{o.points}; ++k)
    out->true_points.push_back(random.both());
  // The mean number of cameras must leave room below the largest one.
  const bool collection = o.cameras >= kCollection && o.observations / o.points < o.cameras / 16;
  const Slice slice = share.slice(o.observations);
  out->observations =
      collection ? neighbouring_views(o, slice, random) : spread_views(o, slice, random);
  perturb(*out, random);
  const BundleScene truth = {out->true_cameras, out->true_points, {}};
  ir::parallel_for(std::size_t{0}, out->observations.size(), [&](std::size_t k) {
    BundleScene::Observation& seen = out->observations[k];
    seen.seen = truth.project(seen.camera, seen.point);
  });
  if (o.noise > 0) {
    for (std::uint64_t k = 0; k < slice.end; ++k) {
      const std::array<double, 2> n = normal(random);
      if (k < slice.first) continue;
      BundleScene::Observation& seen = out->observations[k - slice.first];
      for (std::size_t d = 0; d < 2; ++d) seen.seen[d] += o.noise * n[d];
    }
  }
  const Parameters cameras =
      out->problem.add_parameters(out->cameras, static_cast<int>(kCamera), "cameras");
  const Parameters points = out->problem.add_parameters(out->points, 3, "points");
  add_reprojections(out->problem, cameras, points, *out);
  return out;
}

BundleErrors bundle_errors(const Bundle& bundle) {
  const std::size_t points = bundle.points.size() / 3, cameras = bundle.cameras.size() / kCamera;
  const auto positions = [&](const BundleScene& scene) {
    Eigen::Matrix3Xd out(3, static_cast<Eigen::Index>(points + cameras));
    for (std::size_t j = 0; j < points; ++j)
      out.col(static_cast<Eigen::Index>(j)) =
          Eigen::Map<const Eigen::Vector3d>(&scene.points[3 * j]);
    for (std::size_t i = 0; i < cameras; ++i)
      out.col(static_cast<Eigen::Index>(points + i)) = Eigen::Vector3d(scene.center(i).data());
    return out;
  };
  const Eigen::Matrix3Xd found = positions(bundle);
  const Eigen::Matrix3Xd truth = positions({bundle.true_cameras, bundle.true_points, {}});
  const Eigen::Matrix4d map = Eigen::umeyama(found, truth, true);
  const Eigen::Matrix3Xd aligned =
      (map.topLeftCorner<3, 3>() * found).colwise() + Eigen::Vector3d(map.topRightCorner<3, 1>());
  Rms point, camera;
  BundleErrors errors;
  for (std::size_t k = 0; k < points + cameras; ++k) {
    const auto column = static_cast<Eigen::Index>(k);
    (k < points ? point : camera).add((aligned.col(column) - truth.col(column)).norm());
  }
  for (std::size_t i = 0; i < cameras; ++i) {
    const double f = bundle.true_cameras[kCamera * i + 6];
    errors.focal_max =
        std::max(errors.focal_max, std::abs(bundle.cameras[kCamera * i + 6] - f) / f);
  }
  errors.point_rms = point.mean(points);
  errors.point_max = point.largest;
  errors.center_rms = camera.mean(cameras);
  errors.center_max = camera.largest;
  return errors;
}

}  // namespace topograd::problems
