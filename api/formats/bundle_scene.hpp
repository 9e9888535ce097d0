// Cameras, points and what the cameras saw of them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace topograd {

/// A scene for bundle adjustment.
///
/// A camera is Snavely's, nine numbers: rotation vector a (radians), translation t, focal length f
/// (pixels), distortion k1, k2. It looks down its negative z axis and sees the point X at
///
///   f (1 + k1 s + k2 s²) p,  s = |p|²,  p = −(P.x, P.y) / P.z,  P = R(a) X + t,
///
/// in pixels from the centre of the image. Source: Agarwal et al., Bundle Adjustment in the Large,
/// ECCV 2010.
struct BundleScene {
  static constexpr std::size_t kCameraSize = 9;

  struct Observation {
    std::uint32_t camera = 0, point = 0;
    std::array<double, 2> seen = {};  ///< pixels
  };

  std::vector<double> cameras;  ///< (cameras, 9)
  std::vector<double> points;   ///< (points, 3)
  std::vector<Observation> observations;

  std::size_t camera_count() const { return cameras.size() / kCameraSize; }
  std::size_t point_count() const { return points.size() / 3; }

  /// The image of a point in a camera, in pixels; not finite for a point in its plane.
  std::array<double, 2> project(std::size_t camera, std::size_t point) const;
  /// Position of a camera: −R(a)ᵀ t.
  std::array<double, 3> center(std::size_t camera) const;
};

/// Distances in pixels between what was seen and where the scene says it is.
struct ReprojectionErrors {
  struct Row {
    std::size_t observation = 0;
    std::uint32_t camera = 0, point = 0;
    double pixels = 0;
  };
  double rmse = 0;         ///< √(Σ d² / observations)
  double median = 0;       ///< the lower one of an even number
  std::vector<Row> worst;  ///< descending; not finite ones first

  bool empty() const { return worst.empty(); }
};

/// Cost: a projection for each observation, and a selection.
///
///   worst  number of rows to name
ReprojectionErrors reprojection_errors(const BundleScene& scene, std::size_t worst = 10);

/// The distance of each observation; infinite where the point has no image.
std::vector<double> reprojection_distances(const BundleScene& scene);
/// The errors of several scenes with the same cameras and points, one after the other.
///
///   distances  of all of them
///   rows       candidates for the worst ones, with numbers of observations among all
ReprojectionErrors joined_errors(std::vector<double> distances,
                                 std::vector<ReprojectionErrors::Row> rows, std::size_t worst = 10);

/// A change of coordinates X → scale (X − center).
struct SceneFrame {
  std::array<double, 3> center = {};
  double scale = 1;

  bool operator==(const SceneFrame&) const = default;
};

/// The frame in which the median of the points is 0, coordinate by coordinate, and the median of
/// the sums of their absolute coordinates is 100, as in Ceres' example. The identity for a scene
/// without points or of no extent.
SceneFrame median_frame(const BundleScene& scene);
/// Moves points and cameras into the frame, or back out of it. Projections stay the same, but for
/// rounding.
void enter_frame(BundleScene& scene, const SceneFrame& frame);
void leave_frame(BundleScene& scene, const SceneFrame& frame);

}  // namespace topograd
