// Robots of URDF files, and joint values within limits that bring a tip to many targets.
#pragma once

#include "../../ir/enum_table.hpp"
#include "../../solver/solve_many.hpp"

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

namespace topograd::problems {

/// A joint of a chain: the frame of its child in that of its parent is `origin`, then the motion
/// about or along `axis`.
struct Joint {
  enum class Kind : std::uint8_t { fixed, revolute, continuous, prismatic };
  std::string name;
  Kind kind = Kind::fixed;
  std::array<double, 3> xyz{};                                   ///< origin, m
  std::array<double, 9> rotation = {1, 0, 0, 0, 1, 0, 0, 0, 1};  ///< origin, by rows
  std::array<double, 3> axis = {1, 0, 0};                        ///< of length 1
  double lower = -std::numeric_limits<double>::infinity();       ///< rad or m
  double upper = std::numeric_limits<double>::infinity();

  bool moves() const { return kind != Kind::fixed; }
};

TG_ENUM_NAMES(Joint::Kind)

/// The joints between two links, from the root on.
struct Chain {
  std::string robot, root, tip;
  std::vector<Joint> joints;

  /// Joints that move: the unknowns, in this order.
  std::size_t unknowns() const;
  std::vector<const Joint*> moving() const;
};

/// The chain from the root of a URDF robot to a link.
///
///   name  of the file, for messages
///   tip   name of the link; empty: the robot's only link without children
///
/// Throws Error{Parse}, "name:line: ...", for text that is not XML, for a robot that is not a tree
/// of links, and for numbers that cannot be read; Error{InvalidArgument} for a tip that is not
/// there or that could be several links; Error{Unsupported} for joints of the chain that it does
/// not know: floating, planar, or those that mimic another.
Chain read_chain(std::string_view urdf, const std::string& name, const std::string& tip);

/// A number that is known, or one of type T. Zeros and ones of known numbers cost nothing.
template <class T>
struct Entry {
  bool known = true;
  double number = 0;
  T value{};

  static Entry of(double number) { return {true, number, T{}}; }
  static Entry of_value(T value) { return {false, 0, std::move(value)}; }
};

/// The frame of a link in that of the root.
template <class T>
struct Frame {
  std::array<Entry<T>, 9> rotation = {
      Entry<T>::of(1), Entry<T>::of(0), Entry<T>::of(0), Entry<T>::of(0), Entry<T>::of(1),
      Entry<T>::of(0), Entry<T>::of(0), Entry<T>::of(0), Entry<T>::of(1)};  ///< by rows
  std::array<Entry<T>, 3> position = {};
};

/// Forward kinematics.
///
///   q      a number for each joint that moves
///   known  makes a factor of a T of a number
template <class T, class Known>
class ForwardKinematics {
 public:
  ForwardKinematics(const Chain& chain, Known known) : chain_(chain), known_(std::move(known)) {}

  template <class Q>
  Frame<T> operator()(const Q& q) const {
    Frame<T> frame;
    std::size_t next = 0;
    for (const Joint& joint : chain_.joints) {
      move(frame, joint.xyz);
      std::array<Entry<T>, 9> turn;
      for (std::size_t k = 0; k < 9; ++k) turn[k] = Entry<T>::of(joint.rotation[k]);
      frame.rotation = product(frame.rotation, turn);
      if (!joint.moves()) continue;
      const T& angle = q[next++];
      if (joint.kind == Joint::Kind::prismatic) {
        slide(frame, joint.axis, angle);
      } else {
        frame.rotation = product(frame.rotation, rotation_about(joint.axis, angle));
      }
    }
    return frame;
  }

  T value(const Entry<T>& entry) const {
    return entry.known ? T(known_(entry.number)) : entry.value;
  }

 private:
  using E = Entry<T>;

  E times(const E& a, const E& b) const {
    if (a.known && b.known) return E::of(a.number * b.number);
    if (b.known) return times(b, a);
    if (a.known && a.number == 0) return E::of(0);
    if (a.known && a.number == 1) return b;
    if (a.known && a.number == -1) return E::of_value(-b.value);
    return E::of_value(a.known ? known_(a.number) * b.value : a.value * b.value);
  }
  E plus(const E& a, const E& b) const {
    if (a.known && b.known) return E::of(a.number + b.number);
    if (b.known) return plus(b, a);
    if (a.known && a.number == 0) return b;
    return E::of_value(value(a) + b.value);
  }
  std::array<E, 9> product(const std::array<E, 9>& a, const std::array<E, 9>& b) const {
    std::array<E, 9> out;
    for (std::size_t i = 0; i < 3; ++i)
      for (std::size_t j = 0; j < 3; ++j)
        out[3 * i + j] = plus(plus(times(a[3 * i], b[j]), times(a[3 * i + 1], b[3 + j])),
                              times(a[3 * i + 2], b[6 + j]));
    return out;
  }
  void move(Frame<T>& frame, const std::array<double, 3>& by) const {
    for (std::size_t i = 0; i < 3; ++i)
      for (std::size_t j = 0; j < 3; ++j)
        frame.position[i] = plus(frame.position[i], times(frame.rotation[3 * i + j], E::of(by[j])));
  }
  void slide(Frame<T>& frame, const std::array<double, 3>& axis, const T& by) const {
    for (std::size_t i = 0; i < 3; ++i) {
      E along = E::of(0);
      for (std::size_t j = 0; j < 3; ++j)
        along = plus(along, times(frame.rotation[3 * i + j], E::of(axis[j])));
      frame.position[i] = plus(frame.position[i], times(along, E::of_value(by)));
    }
  }
  /// Rodrigues' formula: n nᵀ + cos θ (1 − n nᵀ) + sin θ [n]×.
  std::array<E, 9> rotation_about(const std::array<double, 3>& n, const T& angle) const {
    using std::cos, std::sin;
    const E c = E::of_value(cos(angle)), s = E::of_value(sin(angle));
    const std::array<double, 9> cross = {0, -n[2], n[1], n[2], 0, -n[0], -n[1], n[0], 0};
    std::array<E, 9> out;
    for (std::size_t i = 0; i < 3; ++i) {
      for (std::size_t j = 0; j < 3; ++j) {
        const double along = n[i] * n[j];
        out[3 * i + j] = plus(E::of(along), plus(times(E::of((i == j ? 1 : 0) - along), c),
                                                 times(E::of(cross[3 * i + j]), s)));
      }
    }
    return out;
  }

  const Chain& chain_;
  Known known_;
};

/// A pose: rotation by rows, then position in m.
using PoseNumbers = std::array<double, 12>;

/// The pose of the tip.
PoseNumbers tip_pose(const Chain& chain, const double* q);

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
