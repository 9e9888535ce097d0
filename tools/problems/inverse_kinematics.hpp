// Inverse kinematics of many targets: joint values within limits that bring the tip to a pose.
#pragma once

#include "../../solver/solve_many.hpp"
#include "robot.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

namespace topograd::problems {

/// Poses of the tip in the frame of the root.
struct Targets {
  std::vector<double> poses;  ///< PoseNumbers of each
  std::size_t count() const { return poses.size() / std::tuple_size_v<PoseNumbers>; }
  void add(const PoseNumbers& pose) { poses.insert(poses.end(), pose.begin(), pose.end()); }
};

/// Targets of a CSV table with the columns x, y, z (m) and qx, qy, qz, qw (a unit quaternion), by
/// name, or in this order without a row of names.
///
/// Throws Error{Parse} with `name` for a table that cannot be read, numbers that are not finite and
/// quaternions whose length differs from 1 by more than 0.001.
Targets read_targets(const std::string& text, const std::string& name);

struct InverseKinematicsOptions {
  int starts = 16;                   ///< most starts of a target, >= 1
  std::uint64_t seed = 0;            ///< of the starts after the first
  double position_tolerance = 5e-3;  ///< m, > 0
  double rotation_tolerance = 0.05;  ///< rad, > 0
  /// Of each start. Errors count in units of their tolerances.
  SolverOptions solver = {.max_iterations = 16};
};

/// Columns by target.
struct InverseKinematics {
  std::vector<double> q;  ///< values of the joints that move
  std::vector<double> position_error, rotation_error;
  std::vector<std::uint8_t> solved;  ///< both errors are within their tolerances
  std::vector<std::uint32_t> starts;
  std::size_t solves = 0;  ///< of all targets
  std::uint64_t steps = 0;
  double seconds = 0;  ///< of all of this
  Summary first;       ///< of the solve from the first starts

  std::size_t count() const { return solved.size(); }
  std::size_t solved_count() const;
};

/// Values of the joints for start `start` of a target: first the middles of their limits, then
/// numbers within them that depend on seed, target and start alone. A joint without limits starts
/// at 0, then within half a turn.
std::vector<double> ik_start(const Chain& chain, std::size_t target, std::size_t start,
                             std::uint64_t seed);

/// inverse_kinematics() for one set of targets after the other: traced and compiled once.
class InverseKinematicsSolver {
 public:
  /// `chain` outlives it. Throws Error{InvalidArgument} for options out of range.
  InverseKinematicsSolver(const Chain& chain, const InverseKinematicsOptions& options);
  ~InverseKinematicsSolver();

  /// One thread at a time. Throws Error{InvalidArgument} for no targets.
  InverseKinematics solve(const Targets& targets);

 private:
  struct Memory;
  class Rounds;

  const Chain& chain_;
  InverseKinematicsOptions options_;
  ManySolver solver_;
  std::unique_ptr<Memory> memory_;
};

/// Minimises, for each target, the squared errors of position and rotation (‖R − R*‖ / √2, which is
/// 2 sin of half the angle) in units of their tolerances, from one start after the other until the
/// tip is within both tolerances, and keeps the best. The errors are computed once more from the
/// joint values.
///
/// Throws Error{InvalidArgument} for no targets and options out of range, and what solve_many()
/// throws.
InverseKinematics inverse_kinematics(const Chain& chain, const Targets& targets,
                                     const InverseKinematicsOptions& options = {});

/// CSV: the number of the target, the values of its joints, solved (1 or 0), errors and starts.
std::string to_csv(const Chain& chain, const InverseKinematics& result);

}  // namespace topograd::problems
