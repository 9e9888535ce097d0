// Poses and landmarks, and measurements between them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
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

/// A graph of poses and landmarks in the plane or in space.
struct PoseGraph {
  static constexpr std::uint32_t kNoSensor = ~std::uint32_t{0};  ///< it is in the pose itself
  static constexpr std::uint32_t kNone = kNoSensor;

  struct Edge {
    std::uint32_t from = 0, to = 0;  ///< numbers of poses
    /// from⁻¹ · to; of an edge with sensors (from · S)⁻¹ (to · S′), where S is a sensor of the
    /// graph or a pose of the graph that is a calibration, the same for both poses.
    Pose measured;
    std::uint32_t from_sensor = kNoSensor, to_sensor = kNoSensor;
    std::uint32_t calibration = kNone;  ///< number of a pose
    /// Number of a switch, which multiplies the error.
    std::uint32_t switched_by = kNone;
    /// Inverse covariance, symmetric, 6 × 6 row by row: of position and of the rotation's x, y, z
    /// (g2o's order). In the plane its upper left 3 × 3 of x, y and angle, the rest is 0.
    std::array<double, 36> information = {};
    std::size_t line = 0;  ///< of the file; 0 if there is none
  };
  /// A point that poses see.
  struct Landmark {
    std::int64_t id = 0;
    std::array<double, 3> position = {};
    bool given = false, fixed = false;  ///< as of a pose
  };
  /// Where a sensor is in the frame of its pose.
  struct Sensor {
    std::int64_t id = 0;
    Pose offset;
  };
  /// An unknown in [0, 1] with which an edge can be turned off. Source: Sünderhauf and Protzel,
  /// Switchable Constraints for Robust Pose Graph SLAM, IROS 2012.
  struct Switch {
    std::int64_t id = 0;
    double value = 1;
    bool given = false, fixed = false;  ///< as of a pose
  };
  /// A landmark as a sensor sees it: its position, or its direction (`measured.angle()`) in the
  /// plane. Ω has a row for each coordinate, or one row.
  struct Sighting {
    Edge edge;  ///< from a pose to the landmark of number `to`
    std::uint32_t sensor = kNoSensor;
    bool bearing = false;
  };
  /// A prior measures one pose, its position alone or a landmark in the frame of the graph, or it
  /// measures a switch, whose value is measured.position[0].
  struct Prior {
    enum class Of { pose, position, landmark, switched };
    Of of = Of::pose;
    Edge edge;  ///< to the pose, the landmark or the switch; `from` is not read
    std::uint32_t sensor = kNoSensor;  ///< in space: the prior is that of the sensor's pose
  };

  std::string file;               ///< where the edges' lines are; empty if there is none
  int dimension = 3;              ///< 2 or 3
  std::vector<std::int64_t> ids;  ///< names of the poses
  std::vector<Pose> poses;        ///< where they are, or begin
  std::vector<bool> given;        ///< by pose: the file said where it is
  std::vector<bool> fixed;        ///< by pose: the file said that it stays
  std::vector<Edge> edges;
  std::vector<Landmark> landmarks;
  std::vector<Sensor> sensors;
  std::vector<Switch> switches;
  std::vector<Sighting> sightings;
  std::vector<Prior> priors;

  std::size_t size() const { return poses.size(); }
  /// True if the file has all poses.
  bool has_start() const;
  /// Edges, sightings and priors.
  std::size_t measurements() const { return edges.size() + sightings.size() + priors.size(); }
  /// The frame of a sensor, in that of its pose.
  Pose offset(std::uint32_t sensor) const {
    return sensor == kNoSensor ? Pose{} : sensors[sensor].offset;
  }
  /// The frames that the edge's measured pose is between.
  Pose start_of(const Edge& edge) const { return poses[edge.from] * place(edge, edge.from_sensor); }
  Pose end_of(const Edge& edge) const { return poses[edge.to] * place(edge, edge.to_sensor); }
  /// from⁻¹ · to of its poses, as the edge measures it.
  Pose between(const Edge& edge) const;
  /// By pose, whether it is the calibration of an edge.
  std::vector<bool> calibrations() const;
  /// By pose, the number of its connected piece; pieces are numbered by their first pose. Poses
  /// that see one landmark are in one piece, and so are the poses of an edge and its calibration.
  std::vector<std::uint32_t> pieces() const;
  /// The same for edges between poses alone.
  std::vector<std::uint32_t> pieces_of_edges() const;
  /// By pose, whether it stays where it is: fixed poses, and the first pose of each piece that
  /// neither a fixed pose nor a prior nor two fixed landmarks (three in space) hold. Residuals do
  /// not tell where such a piece is as a whole. Calibrations do not count.
  std::vector<bool> anchors() const;
  /// Rows of Ω without the zeros of the plane: 3 or 6.
  std::size_t degrees() const { return dimension == 2 ? 3 : 6; }

 private:
  /// Returns the place of an edge's sensor in the frame of its pose.
  Pose place(const Edge& edge, std::uint32_t sensor) const {
    return edge.calibration == kNone ? offset(sensor) : poses[edge.calibration];
  }
};

}  // namespace topograd
