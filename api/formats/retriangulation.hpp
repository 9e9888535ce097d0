// Points of photographs that are in a local minimum of their own, and where they fit better.
#pragma once

#include "../../frontend/loss.hpp"
#include "camera_model.hpp"

#include <Eigen/Core>

#include <array>
#include <optional>
#include <span>

namespace topograd {

/// A camera that has seen a point.
struct Sight {
  CameraModel model = CameraModel::SIMPLE_PINHOLE;
  std::span<const double> parameters;  ///< of the camera
  Eigen::Matrix3d turn;                ///< R: a point x of the world is R (x − c) in the camera
  Eigen::Vector3d center;              ///< c
  std::array<double, 2> seen = {};     ///< pixels

  /// Reprojection error of a point of the world, in pixels; not finite for one without an image.
  Eigen::Vector2d error(const Eigen::Vector3d& point) const;
};

/// The direction in the camera's frame that a camera maps to `seen`, of length 1; none where no
/// direction is found, as beyond the image of a distorted lens.
std::optional<Eigen::Vector3d> direction_of(CameraModel model, std::span<const double> parameters,
                                            const std::array<double, 2>& seen);

/// ½ Σ ρ(‖error‖²) of a point; infinite for one without an image.
double cost_of(std::span<const Sight> sights, const Eigen::Vector3d& point, const Loss& loss);

/// Minimises cost_of() over the point, with the cameras as they are, from the point nearest to the
/// rays of all sights and from three points along the first ray. Returns the best minimum, if its
/// cost is lower than that of `now` by more than a thousandth and `least_gain`. A point with less
/// than two rays stays where it is.
///
///   behind  true: the point may get behind cameras that it is in front of
///
/// Cost: linear in the sights, about 200 images of the point for each.
std::optional<Eigen::Vector3d> lower_minimum(std::span<const Sight> sights,
                                             const Eigen::Vector3d& now, const Loss& loss,
                                             bool behind, double least_gain);

}  // namespace topograd
