// Bundle adjustment as a problem.
#pragma once

#include "../../frontend/problem.hpp"
#include "bundle_scene.hpp"

#include <array>
#include <cstddef>
#include <string>
#include <vector>

namespace topograd {

struct BundleAdjustmentOptions {
  Loss loss = {};  ///< of each observation's two rows, in pixels
  /// Names of what stays as it is: "rotation", "translation", "f", "k1", "k2" of all cameras,
  /// "cameras" or "points". "f=X", "k1=X" and "k2=X" set the number of all cameras first.
  std::vector<std::string> fixed = {};
  /// Solves in median_frame(). Costs are those of the scene's own frame, but for rounding.
  bool normalize = false;
};

/// A scene and the least-squares problem of its reprojection errors: two residuals for each
/// observation, in pixels. Neither copied nor moved, because the problem refers to the scene.
///
///   BundleAdjustment adjustment(read_bal("problem-49-7776-pre.txt"));
///   solve(adjustment.problem());
///   write_scene("adjusted.ply", adjustment.scene());
class BundleAdjustment {
 public:
  /// Throws Error{InvalidArgument} for an unknown name in `fixed`, a scene without observations,
  /// and an observation of a camera or point that the scene does not have.
  /// Cost: linear in the observations; one trace.
  explicit BundleAdjustment(BundleScene scene, const BundleAdjustmentOptions& options = {});
  BundleAdjustment(const BundleAdjustment&) = delete;
  BundleAdjustment& operator=(const BundleAdjustment&) = delete;

  /// Takes further residuals on cameras() and points().
  Problem& problem() { return problem_; }
  const Problem& problem() const { return problem_; }
  const Parameters& cameras() const { return cameras_; }  ///< blocks of 9, in the solved frame
  const Parameters& points() const { return points_; }    ///< blocks of 3, in the solved frame

  /// The scene with the present numbers, in the frame that it was given in.
  BundleScene scene() const;
  /// The frame of cameras() and points(); the identity unless `normalize` was asked for.
  const SceneFrame& frame() const { return frame_; }
  /// Errors of the present numbers.
  ReprojectionErrors errors(std::size_t worst = 10) const {
    return reprojection_errors(scene_, worst);
  }
  std::vector<double> distances() const { return reprojection_distances(scene_); }

 private:
  void fix(const std::string& what);

  BundleScene scene_;
  SceneFrame frame_;
  Problem problem_;
  Parameters cameras_, points_;
};

/// Two residuals of an observation: where the camera sees the point, minus `seen`. For rows of
/// one's own.
///
///   camera  nine Values in the order of BundleScene
std::array<Value, 2> reprojection(const std::array<Value, 9>& camera, const Vec3& point,
                                  const Vec2& seen);

/// Adds the residuals of all observations of a scene, by one trace.
///
///   cameras, points  blocks of 9 and 3, as many as the scene has
void add_reprojections(Problem& problem, const Parameters& cameras, const Parameters& points,
                       const BundleScene& scene, Loss loss = {});

}  // namespace topograd
