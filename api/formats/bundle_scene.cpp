// Projections, errors and frames of scenes.
#include "bundle_scene.hpp"

#include <Eigen/Geometry>

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <utility>

namespace topograd {
namespace {

constexpr double kMedianExtent = 100;

Eigen::Matrix3d rotation(const double* axis_angle) {
  const Eigen::Vector3d a(axis_angle[0], axis_angle[1], axis_angle[2]);
  const double angle = a.norm();
  if (angle == 0) return Eigen::Matrix3d::Identity();
  return Eigen::AngleAxisd(angle, a / angle).toRotationMatrix();
}

Eigen::Map<const Eigen::Vector3d> vector3(const double* x) {
  return Eigen::Map<const Eigen::Vector3d>(x);
}

double median(std::vector<double>& values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// Zeros lose their signs.
std::array<double, 3> to_array(const Eigen::Vector3d& v) {
  return {v.x() + 0.0, v.y() + 0.0, v.z() + 0.0};
}

/// Sets t so that the camera is at `center`.
void move_center(double* camera, const Eigen::Vector3d& center) {
  Eigen::Map<Eigen::Vector3d>(camera + 3) = -(rotation(camera) * center);
}

template <class Change>
void change_positions(BundleScene& scene, Change change) {
  for (std::size_t c = 0; c < scene.camera_count(); ++c) {
    const std::array<double, 3> center = scene.center(c);
    move_center(&scene.cameras[BundleScene::kCameraSize * c], change(vector3(center.data())));
  }
  for (std::size_t k = 0; k < scene.points.size(); k += 3) {
    Eigen::Map<Eigen::Vector3d> point(&scene.points[k]);
    point = change(Eigen::Vector3d(point));
  }
}

}  // namespace

std::array<double, 2> BundleScene::project(std::size_t camera, std::size_t point) const {
  const double* c = &cameras[kCameraSize * camera];
  const Eigen::Vector3d P = rotation(c) * vector3(&points[3 * point]) + vector3(c + 3);
  const double u = -P.x() / P.z(), v = -P.y() / P.z(), s = u * u + v * v;
  const double scale = c[6] * (1 + c[7] * s + c[8] * s * s);
  return {scale * u, scale * v};
}

std::array<double, 3> BundleScene::center(std::size_t camera) const {
  const double* c = &cameras[kCameraSize * camera];
  return to_array(-(rotation(c).transpose() * vector3(c + 3)));
}

std::vector<double> reprojection_distances(const BundleScene& scene) {
  std::vector<double> distances;
  distances.reserve(scene.observations.size());
  for (const BundleScene::Observation& o : scene.observations) {
    const std::array<double, 2> at = scene.project(o.camera, o.point);
    const double distance = std::hypot(at[0] - o.seen[0], at[1] - o.seen[1]);
    distances.push_back(std::isnan(distance) ? std::numeric_limits<double>::infinity() : distance);
  }
  return distances;
}

ReprojectionErrors joined_errors(std::vector<double> distances,
                                 std::vector<ReprojectionErrors::Row> rows, std::size_t worst) {
  ReprojectionErrors errors;
  if (distances.empty()) return errors;
  double sum = 0;
  for (const double distance : distances) sum += distance * distance;
  errors.rmse = std::sqrt(sum / static_cast<double>(distances.size()));
  errors.median = median(distances);
  const auto end = rows.begin() + static_cast<std::ptrdiff_t>(std::min(worst, rows.size()));
  std::partial_sort(rows.begin(), end, rows.end(), [](const auto& a, const auto& b) {
    return a.pixels != b.pixels ? a.pixels > b.pixels : a.observation < b.observation;
  });
  errors.worst.assign(rows.begin(), end);
  return errors;
}

ReprojectionErrors reprojection_errors(const BundleScene& scene, std::size_t worst) {
  std::vector<double> distances = reprojection_distances(scene);
  std::vector<ReprojectionErrors::Row> rows;
  rows.reserve(distances.size());
  for (std::size_t k = 0; k < distances.size(); ++k)
    rows.push_back({k, scene.observations[k].camera, scene.observations[k].point, distances[k]});
  return joined_errors(std::move(distances), std::move(rows), worst);
}

SceneFrame median_frame(const BundleScene& scene) {
  SceneFrame frame;
  const std::size_t count = scene.point_count();
  if (count == 0) return frame;
  std::vector<double> values(count);
  for (std::size_t d = 0; d < 3; ++d) {
    for (std::size_t k = 0; k < count; ++k) values[k] = scene.points[3 * k + d];
    frame.center[d] = median(values);
  }
  for (std::size_t k = 0; k < count; ++k)
    values[k] = (vector3(&scene.points[3 * k]) - vector3(frame.center.data())).lpNorm<1>();
  const double extent = median(values);
  if (extent > 0 && std::isfinite(kMedianExtent / extent)) frame.scale = kMedianExtent / extent;
  return frame;
}

void enter_frame(BundleScene& scene, const SceneFrame& frame) {
  if (frame == SceneFrame{}) return;
  const Eigen::Vector3d center = vector3(frame.center.data());
  change_positions(scene, [&](const Eigen::Vector3d& x) -> Eigen::Vector3d {
    return frame.scale * (x - center);
  });
}

void leave_frame(BundleScene& scene, const SceneFrame& frame) {
  if (frame == SceneFrame{}) return;
  const Eigen::Vector3d center = vector3(frame.center.data());
  change_positions(
      scene, [&](const Eigen::Vector3d& x) -> Eigen::Vector3d { return x / frame.scale + center; });
}

}  // namespace topograd
