// The subject of a live solver: a problem, its points and weights, and handles that pull at points.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "../../frontend/problem.hpp"
#include "../../solver/options.hpp"
#include "content.hpp"

namespace topograd::view {

using Point = std::array<double, 3>;
using HandleId = std::uint32_t;

/// A group of vertices that moves as a whole.
struct Handle {
  std::uint32_t anchor = 0;             ///< the vertex that is dragged
  std::vector<std::uint32_t> vertices;  ///< with the anchor
  std::vector<Point> targets;           ///< of these vertices
  Point position() const;               ///< the target of the anchor
};

/// All handles of a problem. A vertex belongs to one handle at most.
///
/// Solvers read a target and a switch for each vertex, so that adding, moving and removing handles
/// changes numbers alone.
class Handles {
 public:
  static constexpr std::size_t kMostHandles = 4096, kMostUndo = 100;
  /// Vertices of the handles that can be brought back, all states together.
  static constexpr std::size_t kMostUndoVertices = 4'000'000;
  /// Coordinates of targets are within this many diagonals of the start.
  static constexpr double kFarthest = 100;

  Handles() = default;
  ///   rest   x, y, z of each vertex that handles can have
  ///   first  handles of the start, with the ids 1, 2, ...
  explicit Handles(std::vector<double> rest, std::vector<Handle> first = {});

  /// Adds a handle at the present positions of all vertices that were within `radius` of `vertex`
  /// at the start and belong to no handle. Does nothing if the id is in use. Throws
  /// Error{InvalidArgument} for a vertex that does not exist or has a handle, a negative or
  /// infinite radius, and beyond kMostHandles.
  void grab(HandleId id, std::uint32_t vertex, double radius, std::span<const double> present);
  /// Moves a handle so that its anchor has this target. Throws Error{InvalidArgument} for an
  /// unknown handle or coordinates beyond kFarthest.
  void drag(HandleId id, const Point& position);
  /// Removes a handle. Throws Error{InvalidArgument} for an unknown one.
  void release(HandleId id);

  /// Remembers the present handles for undo().
  void remember();
  /// Goes back to the handles that were remembered last; false if there are none.
  bool undo();
  std::size_t undo_depth() const { return past_.size(); }
  /// Back to the first handles; can be undone.
  void reset();

  const std::map<HandleId, Handle>& all() const { return handles_; }
  /// Three targets for each vertex, and 1 for vertices of a handle, else 0.
  std::span<const double> targets() const { return targets_; }
  std::span<const double> switches() const { return switches_; }
  /// Changes with each change of a handle.
  std::uint64_t version() const { return version_; }

 private:
  Handle& find(const char* call, HandleId id);
  void put(const Handle& handle);
  void put_all();

  std::vector<double> rest_, targets_, switches_;
  double size_ = 0;  ///< diagonal of the start
  std::map<HandleId, Handle> handles_, first_;
  std::vector<std::map<HandleId, Handle>> past_;
  std::uint64_t version_ = 1;
};

/// The diagonal of the bounding box of points x, y, z; 1 if they are all at one point.
double diagonal_of(std::span<const double> positions);

/// The coordinates of a shown point that are numbers of its block: the first three. A block of two
/// is a point in the plane z = 0. A block of one is a height y; x is the position of the block.
struct Axes {
  std::size_t first = 0, count = 3;
};
Axes axes_of(const Parameters& points);

/// Residuals weight · switch · (p_i − target_i), one row for each of the Axes. Handles change their
/// numbers alone.
struct Pulls {
  Data targets, switches;
  Uniform weight;
  Axes axes;
  std::vector<Residual> residuals;
};

/// A problem with what is shown of it. Its memory lives as long as `memory`.
struct Subject {
  std::string name;
  std::shared_ptr<void> memory;
  Problem* problem = nullptr;
  Parameters points;  ///< blocks, one for each point that handles can have
  Pulls pulls;
  std::vector<Handle> handles;  ///< of the start
  std::vector<Slider> sliders;
  SolverOptions options = {.max_iterations = kSteps};

  std::size_t shown = 0;  ///< shown points; the first ones are `points`
  /// Writes the present 3 · shown coordinates.
  std::function<void(std::span<double>)> show;
  Connections connections;
};

/// The weight of handles at the start, that of the pins of problems::arap().
inline constexpr double kHandleWeight = 10;
/// The slider of handles ends at this many times their weight at the start.
inline constexpr double kMostHandleWeights = 10;

/// Adds Pulls for the blocks of an array, switched off.
Pulls add_pulls(Problem& problem, const Parameters& points, double weight = kHandleWeight);

/// Moves the targets to these points and switches them.
///
///   targets   3 numbers for each block
///   switches  1 for each block: 0 or 1
void set_pulls(Problem& problem, const Pulls& pulls, std::span<const double> targets,
               std::span<const double> switches);

/// A subject that shows the blocks of an array by their Axes, with Pulls and their slider. The
/// problem and the memory of the array must outlive it.
///
/// Throws Error{InvalidArgument} for connections with points that do not exist, Error{WrongProblem}
/// for an array of another problem.
Subject make_subject(Problem& problem, const Parameters& points, Connections connections,
                     double weight = kHandleWeight);

/// The numbers of an array of unknowns; null if it was removed.
const double* values_of(const Problem& problem, const Parameters& array);

}  // namespace topograd::view
