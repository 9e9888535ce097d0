// Handles: groups of vertices that are pulled to targets, as numbers of a running problem.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

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

/// The diagonal of the bounding box of points x, y, z; 1 if they are all in one place.
double diagonal_of(std::span<const double> positions);

}  // namespace topograd::view
