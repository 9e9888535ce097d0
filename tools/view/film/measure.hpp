// Measures a live solver while it is dragged, without a page.
#pragma once

#include "../../../view/live/live_solver.hpp"
#include "film.hpp"

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace topograd::view {

struct MeasureOptions {
  double seconds = 20;
  double warm_up_seconds = 2;           ///< of dragging before, which does not count
  double drags_per_second = 60;         ///< as a mouse makes them
  std::optional<std::uint64_t> random;  ///< seed of random drags of random points; else the script
  bool lists = true;                    ///< false: no lists, which grow with the time
};

/// The least memory of the process in a part of the time, so that work in flight does not count.
struct LeastMemory {
  std::uint64_t resident = 0, heap = 0;  ///< bytes
};

/// The measurements of a run. Lists have one number for each frame that was seen, in its order.
struct Measured {
  double seconds = 0;
  std::uint64_t solves = 0, steps = 0, drags = 0;
  std::vector<double> frame_ms;          ///< from the frame before
  std::vector<double> drag_to_frame_ms;  ///< from the newest drag in a frame
  std::vector<double> drag_to_frame;     ///< the same, in frames
  std::vector<double> encode_ms, frame_bytes;
  std::uint64_t compiled = 0;   ///< shaders, while it counted
  std::uint64_t nonfinite = 0;  ///< frames whose cost or positions are not finite
  std::uint64_t bytes_before = 0, bytes_after = 0;  ///< of the process in memory
  std::array<LeastMemory, 3> thirds;                ///< of the time after the warm-up
  std::shared_ptr<const Frame> last;
};

/// Drags by `script` again and again, and encodes each frame as for a client that keeps up.
/// Interrupts end it early. Throws Error{Internal} with the live solver's message if a solve fails,
/// if the first frame takes ten minutes or another one a minute.
Measured measure(LiveSolver& live, const Script& script, const MeasureOptions& options);

/// The number that this share of the values does not exceed; 0 for no values.
double quantile(std::vector<double> values, double share);

}  // namespace topograd::view
