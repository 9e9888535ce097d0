// Poses, and measurements between pairs of them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace topograd {

/// A position and a rotation. In the plane z and the rotation's x and y are 0.
struct Pose {
  std::array<double, 3> position = {};
  std::array<double, 4> rotation = {1, 0, 0, 0};  ///< unit quaternion w, x, y, z

  /// The pose of the plane that is turned by `angle` (radians).
  static Pose planar(double x, double y, double angle);
  /// Angle of a planar pose in [−π, π], radians.
  double angle() const;
  /// The pose that `other` is if it is given in the frame of this one: first turned, then moved.
  Pose operator*(const Pose& other) const;
  Pose inverse() const;
};

/// A graph of poses in the plane or in space.
struct PoseGraph {
  struct Edge {
    std::uint32_t from = 0, to = 0;  ///< numbers of poses
    Pose measured;                   ///< from⁻¹ · to
    /// Inverse covariance, symmetric, 6 × 6 row by row: of position and of the rotation's x, y, z
    /// (g2o's order). In the plane its upper left 3 × 3 of x, y and angle, the rest is 0.
    std::array<double, 36> information = {};
    std::size_t line = 0;  ///< of the file; 0 if there is none
  };

  int dimension = 3;              ///< 2 or 3
  std::vector<std::int64_t> ids;  ///< names of the poses
  std::vector<Pose> poses;        ///< where they are, or begin
  std::vector<bool> given;        ///< by pose: the file said where it is
  std::vector<bool> fixed;        ///< by pose: the file said that it stays
  std::vector<Edge> edges;

  std::size_t size() const { return poses.size(); }
  /// True if the file has all poses.
  bool has_start() const;
  /// By pose, the number of its connected piece; pieces are numbered by their first pose.
  std::vector<std::uint32_t> pieces() const;
  /// By pose, whether it stays where it is: fixed poses, and the first pose of each piece without
  /// any. Residuals do not tell where a piece is as a whole.
  std::vector<bool> anchors() const;
  /// Rows of Ω without the zeros of the plane: 3 or 6.
  std::size_t degrees() const { return dimension == 2 ? 3 : 6; }
};

}  // namespace topograd
