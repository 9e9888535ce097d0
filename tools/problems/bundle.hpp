// bundle(cameras, points): synthetic bundle adjustment with a known answer.
#pragma once

#include "../../api/formats/bundle_scene.hpp"
#include "../../frontend/problem.hpp"
#include "../../ir/share.hpp"

#include <cstdint>
#include <memory>
#include <vector>

namespace topograd::problems {

struct BundleOptions {
  std::uint32_t cameras = 49;    ///< >= 2
  std::uint32_t points = 7'776;  ///< >= 4
  /// 2 points <= observations <= cameras points, and enough for the unknowns.
  std::uint32_t observations = 31'843;
  double noise = 0;  ///< standard deviation of each observed coordinate, pixels
  std::uint64_t seed = 1;
};

/// The problem, the scene that it works on (the start, later the solution), and the answer.
struct Bundle : BundleScene {
  std::vector<double> true_cameras, true_points;  ///< that the observations were made from
  Problem problem;
};

/// Cameras on a ring of radius 5 around points in the cube [−1, 1]³, as specified in
/// docs/reference-problems.md, number by number.
///
///   share  of the observations, in their order; the scene has no others
///
/// Throws Error{InvalidArgument} for sizes out of range.
std::unique_ptr<Bundle> bundle(const BundleOptions& options, Share share = {});

/// Distances to the answer after the similarity transform that minimises them (least squares over
/// points and camera centres; Umeyama 1991), in units in which the points fill a cube of side 2.
struct BundleErrors {
  double point_rms = 0, point_max = 0;
  double center_rms = 0, center_max = 0;  ///< of cameras: −R(a)ᵀ t
  double focal_max = 0;                   ///< relative
};
BundleErrors bundle_errors(const Bundle& bundle);

}  // namespace topograd::problems
