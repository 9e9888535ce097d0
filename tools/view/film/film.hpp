// Films: scripts of drags of handles at times, and their frames, drawn without a browser.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "../../../view/live/live_solver.hpp"

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

/// Before the work: throws Error{InvalidArgument} for a path that does not end in .png or .mp4, and
/// Error{Unsupported} for .mp4 where the program ffmpeg is not found.
void check_film(const std::string& path);

/// Plays a script in a paused live solver, frame by frame, and writes an animated PNG, or an MP4 by
/// ffmpeg. A subject without triangles is drawn by its points and lines. The pictures depend on the
/// script alone, not on the speed of the machine. Returns the last frame.
///
/// Throws Error{InvalidArgument} for a live solver that runs, Error{File}, Error{Unsupported} if
/// ffmpeg fails, and Error{Internal} with the live solver's message if a solve fails.
std::shared_ptr<const Frame> record(LiveSolver& live, const Script& script,
                                    const std::string& path);

}  // namespace topograd::view
