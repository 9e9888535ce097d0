// Triangulation of points by the rays of their sights.
#include "retriangulation.hpp"

#include <Eigen/Cholesky>
#include <Eigen/Geometry>
#include <Eigen/LU>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

namespace topograd {
namespace {

constexpr double kDifference = 1e-6;  // of finite differences, in radians
constexpr int kMostSteps = 30;
constexpr double kExact = 1e-3;      // pixels between a ray's image and what was seen
constexpr double kParallel = 1e-16;  // sin² of the angle between rays that meet nowhere
constexpr double kWorth = 1e-3;      // of a point's cost: what a lower minimum must save
constexpr double kNear = 0.01;       // of the distance to a camera: as near is the same minimum
constexpr double kEnd = 1e-9;        // of a point's cost: a step that saves less is the last

/// A half-line of the world.
struct Ray {
  Eigen::Vector3d from, along;
};

using Plane = Eigen::Matrix<double, 3, 2>;

/// Two directions at right angles to d and to each other.
Plane across(const Eigen::Vector3d& d) {
  Plane out;
  out.col(0) = d.unitOrthogonal();
  out.col(1) = d.cross(out.col(0));
  return out;
}

Eigen::Vector2d image(CameraModel model, std::span<const double> parameters,
                      const Eigen::Vector3d& y) {
  const std::array<double, 2> at = project(model, parameters, {y[0], y[1], y[2]});
  return {at[0], at[1]};
}

/// The direction without distortion.
Eigen::Vector3d plain_direction(CameraModel model, std::span<const double> c,
                                const std::array<double, 2>& seen) {
  const std::size_t focal = sizes(model).focal;
  const Eigen::Vector2d at((seen[0] - c[focal]) / c[0], (seen[1] - c[focal + 1]) / c[focal - 1]);
  const double angle = at.norm();
  if (!maps_angles(model) || angle == 0) return at.homogeneous().normalized();
  const Eigen::Vector2d side = at * (std::sin(angle) / angle);
  return {side[0], side[1], std::cos(angle)};
}

/// The point nearest to rays, by the squares of distances; none if they are parallel.
std::optional<Eigen::Vector3d> nearest_to(std::span<const Ray> rays) {
  // Coordinates begin at the first camera, because those of a country would round away the rest.
  Eigen::Matrix3d A = Eigen::Matrix3d::Zero();
  Eigen::Vector3d b = Eigen::Vector3d::Zero();
  double parallel = 0;
  for (const Ray& ray : rays) {
    const Eigen::Matrix3d off = Eigen::Matrix3d::Identity() - ray.along * ray.along.transpose();
    A += off;
    b += off * (ray.from - rays[0].from);
    parallel = std::max(parallel, ray.along.cross(rays[0].along).squaredNorm());
  }
  if (!(parallel > kParallel)) return std::nullopt;
  const Eigen::LDLT<Eigen::Matrix3d> factor(A);
  const Eigen::Vector3d x = factor.solve(b) + rays[0].from;
  if (factor.info() != Eigen::Success || !x.allFinite()) return std::nullopt;
  return x;
}

bool is_in_front(const Ray& ray, const Eigen::Vector3d& point) {
  return ray.along.dot(point - ray.from) > 0;
}

/// In front of all cameras that `now` is in front of.
bool stays_in_front(std::span<const Ray> rays, const Eigen::Vector3d& now,
                    const Eigen::Vector3d& point) {
  for (const Ray& ray : rays)
    if (is_in_front(ray, now) && !is_in_front(ray, point)) return false;
  return true;
}

/// ½ Σ ρ(‖error‖²); `errors` gets the error of each sight.
double cost_of(std::span<const Sight> sights, const Eigen::Vector3d& point, const Loss& loss,
               std::vector<Eigen::Vector2d>& errors) {
  errors.clear();
  double sum = 0;
  for (const Sight& sight : sights) {
    errors.push_back(sight.error(point));
    sum += loss.evaluate(errors.back().squaredNorm())[0];
  }
  return std::isfinite(sum) ? sum / 2 : std::numeric_limits<double>::infinity();
}

/// The derivative of an error by the point. An image does not change along its ray, so that
/// differences along two axes give the third one.
Eigen::Matrix<double, 2, 3> derivative(const Sight& sight, const Eigen::Vector3d& point,
                                       const Eigen::Vector2d& error) {
  const Eigen::Vector3d y = sight.turn * (point - sight.center);
  const Eigen::Vector2d here = error + Eigen::Vector2d(sight.seen[0], sight.seen[1]);
  const double h = kDifference * y.norm();
  Eigen::Index along = 0;
  y.cwiseAbs().maxCoeff(&along);
  Eigen::Matrix<double, 2, 3> J;
  J.col(along).setZero();
  for (Eigen::Index i = 0; i < 3; ++i) {
    if (i == along) continue;
    J.col(i) = (image(sight.model, sight.parameters, y + h * Eigen::Vector3d::Unit(i)) - here) / h;
    J.col(along) -= J.col(i) * (y[i] / y[along]);
  }
  return J * sight.turn;
}

/// Levenberg–Marquardt for the three coordinates of a point. Ends where it comes so near to `known`
/// that it would end there, and where the steps that are left would not reach the cost `least`
/// by gaining as much as the last one, as on the way to infinity.
Eigen::Vector3d minimized(std::span<const Sight> sights, Eigen::Vector3d point, const Loss& loss,
                          const Eigen::Vector3d& known, double least) {
  double reach = std::numeric_limits<double>::infinity();
  for (const Sight& sight : sights) reach = std::min(reach, (known - sight.center).squaredNorm());
  reach *= kNear * kNear;
  if ((point - known).squaredNorm() < reach) return known;
  std::vector<Eigen::Vector2d> errors, errors_there;
  double cost = cost_of(sights, point, loss, errors), lambda = 1e-4;
  for (int k = 0; k < kMostSteps && std::isfinite(cost); ++k) {
    Eigen::Matrix3d H = Eigen::Matrix3d::Zero();
    Eigen::Vector3d g = Eigen::Vector3d::Zero();
    for (std::size_t i = 0; i < sights.size(); ++i) {
      const Eigen::Matrix<double, 2, 3> J = derivative(sights[i], point, errors[i]);
      const double weight = loss.evaluate(errors[i].squaredNorm())[1];
      H += weight * J.transpose() * J;
      g += weight * J.transpose() * errors[i];
    }
    bool better = false;
    for (; !better && lambda < 1e8; lambda *= better ? 0.1 : 10) {
      Eigen::Matrix3d damped = H;
      damped.diagonal() *= 1 + lambda;
      const Eigen::Vector3d trial = point - damped.ldlt().solve(g);
      const double after = trial.allFinite() ? cost_of(sights, trial, loss, errors_there) : cost;
      better = after < cost;
      if (!better) continue;
      const bool last =
          cost - after <= kEnd * cost || (kMostSteps - k) * (cost - after) < after - least;
      point = trial;
      cost = after;
      errors.swap(errors_there);
      if ((point - known).squaredNorm() < reach) return known;
      if (last) return point;
    }
    if (!better) break;
  }
  return point;
}

}  // namespace

Eigen::Vector2d Sight::error(const Eigen::Vector3d& point) const {
  return image(model, parameters, turn * (point - center)) - Eigen::Vector2d(seen[0], seen[1]);
}

std::optional<Eigen::Vector3d> direction_of(CameraModel model, std::span<const double> parameters,
                                            const std::array<double, 2>& seen) {
  const Eigen::Vector2d aim(seen[0], seen[1]);
  Eigen::Vector3d d = plain_direction(model, parameters, seen);
  for (int k = 0; k < kMostSteps; ++k) {
    const Eigen::Vector2d r = image(model, parameters, d) - aim;
    if (!r.allFinite()) return std::nullopt;
    if (r.norm() < kExact) return d;
    const Plane side = across(d);
    Eigen::Matrix2d J;
    for (int i = 0; i < 2; ++i)
      J.col(i) = (image(model, parameters, d + kDifference * side.col(i)) - aim - r) / kDifference;
    const Eigen::Vector2d step = J.inverse() * r;
    if (!step.allFinite()) return std::nullopt;
    d = (d - side * (step / std::max(1.0, 2 * step.norm()))).normalized();
  }
  return std::nullopt;
}

double cost_of(std::span<const Sight> sights, const Eigen::Vector3d& point, const Loss& loss) {
  std::vector<Eigen::Vector2d> errors;
  return cost_of(sights, point, loss, errors);
}

std::optional<Eigen::Vector3d> lower_minimum(std::span<const Sight> sights,
                                             const Eigen::Vector3d& now, const Loss& loss,
                                             bool behind, double least_gain) {
  std::vector<Ray> rays;
  for (const Sight& sight : sights)
    if (const auto d = direction_of(sight.model, sight.parameters, sight.seen))
      rays.push_back({sight.center, sight.turn.transpose() * *d});
  if (rays.size() < 2) return std::nullopt;
  const double cost = cost_of(sights, now, loss);
  double least = std::min((1 - kWorth) * cost, cost - least_gain);
  std::optional<Eigen::Vector3d> best;
  const auto look = [&](const Eigen::Vector3d& start) {
    const Eigen::Vector3d end = minimized(sights, start, loss, now, least);
    if (end == now) return;
    const double there = cost_of(sights, end, loss);
    if (!(there < least) || !(behind || stays_in_front(rays, now, end))) return;
    least = there;
    best = end;
  };
  if (const auto start = nearest_to(rays)) look(*start);
  double baseline = 0;
  for (const Ray& ray : rays) baseline = std::max(baseline, (ray.from - rays[0].from).norm());
  if (baseline == 0) return std::nullopt;
  for (const double length : {1.0, 10.0, 100.0})
    look(rays[0].from + length * baseline * rays[0].along);
  return best;
}

}  // namespace topograd
