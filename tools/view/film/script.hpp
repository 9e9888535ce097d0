// Scripts: drags of handles at times, for films and measurements.
#pragma once

#include "../../../view/live/live_solver.hpp"

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace topograd::view {

/// A drag along a polyline, in equal times for each piece.
struct ScriptedDrag {
  std::optional<HandleId> handle;  ///< one that is there; otherwise a new one
  std::uint32_t vertex = 0;        ///< of a new handle
  double radius = 0;               ///< of a new handle
  double from = 0, to = 0;         ///< seconds
  std::vector<Point> path;         ///< offsets from where the handle was

  /// The offset at a time; the first one before, and the last one after.
  Point offset(double time) const;
};

struct Script {
  double seconds = 2;
  double frames_per_second = 25;
  int solves_per_frame = 1;
  std::vector<ScriptedDrag> drags;
};

/// Reads a script (docs/viewing.md). Throws Error{Parse}.
///
///   name  goes before messages
Script parse_script(std::string_view text, std::string_view name);

/// A drag of the last handle of the start, or of the highest point, out, around twice, and back.
Script turning_script(const LiveSolver& live, double seconds);

/// Drags of a live solver by a script: adds the handles of a script at once, and then moves them.
class Drags {
 public:
  /// Posts the grabs.
  Drags(LiveSolver& live, const Script& script);
  /// Posts the drags at a time. All have this serial number.
  void post(double time, std::uint64_t serial);

 private:
  struct Moving {
    HandleId handle;
    Point origin;
    ScriptedDrag drag;
  };
  LiveSolver* live_;
  std::vector<Moving> moving_;
};

}  // namespace topograd::view
