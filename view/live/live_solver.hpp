// LiveSolver: a problem that is solved again and again on a thread of its own while it is pulled
// at.
#pragma once

#include "../../ir/enum_table.hpp"
#include "../../solver/options.hpp"
#include "frame.hpp"
#include "subject.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace topograd::view {

/// The quantity that the colour of a point shows.
enum class Coloring {
  none,
  displacement,  ///< distance from the start
  residual,      ///< root of the sum of squares of the residuals that read the point
  gradient       ///< norm of the gradient of the cost by the point
};
TG_ENUM_NAMES(Coloring)

/// Commands that people give. Handles are numbered by whoever adds them.
struct Grab {
  HandleId handle = 0;
  std::uint32_t vertex = 0;
  double radius = 0;
};
struct Drag {
  HandleId handle = 0;
  Point position = {};
  std::uint64_t serial = 0;  ///< Frame::drag of the frames that contain it
  bool begins = false;       ///< undo goes back to before this drag
};
struct Release {
  HandleId handle = 0;
};
struct Weigh {
  std::string slider;
  double value = 0;
};
struct Color {
  Coloring coloring = Coloring::none;
};
/// Replaces backend, precision and method.
struct Choose {
  std::string backend, precision, method;
};
struct Pause {
  bool paused = true;
};
struct Step {};   ///< one solve while paused
struct Undo {};   ///< the handles before the last grab, release, beginning drag or reset
struct Reset {};  ///< the start: positions, handles
using Command = std::variant<Grab, Drag, Release, Weigh, Color, Choose, Pause, Step, Undo, Reset>;

/// The state that a page shows besides frames.
struct State {
  std::uint64_t version = 0;
  bool paused = false;
  Coloring coloring = Coloring::none;
  std::string backend, precision, method;
  std::size_t undo_depth = 0;
  std::vector<std::pair<std::string, double>> weights;
  std::map<HandleId, Handle> handles;
  std::string message;  ///< the last error; empty if there is none
};

struct LiveOptions {
  SolverOptions solver;   ///< max_iterations bounds one solve; its callback is replaced
  double budget_ms = 16;  ///< after which a solve ends with its first accepted step
  bool paused = false;
};

/// Solves the subject's problem on a thread of its own until nothing changes any more, and goes on
/// with each change. Between two solves it takes all commands that came: of the drags of a handle
/// the newest. Handles are numbers of the problem, so a drag compiles nothing and plans nothing.
///
/// Errors of commands and solves are messages in the state; after an error of a solve the live
/// solver is paused at its last good positions.
class LiveSolver {
 public:
  /// The longest queue of commands other than drags.
  static constexpr std::size_t kMostCommands = 256;

  ///   changed  called on the live solver's thread after each frame and change of the state
  ///
  /// Throws Error{EmptyProblem}, Error{InvalidArgument} for options out of range.
  explicit LiveSolver(Subject subject, const LiveOptions& options = {},
                      std::function<void()> changed = {});
  ~LiveSolver();
  LiveSolver(const LiveSolver&) = delete;
  LiveSolver& operator=(const LiveSolver&) = delete;

  // From any thread.

  /// Returns false, and drops the command, if too many wait.
  bool post(Command command);
  /// The newest frame; null before the first.
  std::shared_ptr<const Frame> frame() const;
  std::shared_ptr<const State> state() const;
  /// Waits for a frame after `number`, at most `seconds`; null if none came.
  std::shared_ptr<const Frame> wait(std::uint64_t number, double seconds) const;
  /// The report of the last solve, for people.
  std::string report() const;

  // Constant during a live solver.

  const Subject& subject() const;
  /// Positions at the start, three for each shown point.
  const std::vector<double>& start() const;
  const std::string& topologies() const;  ///< a table
  const std::string& kernels() const;     ///< GLSL of the gradient's kernels

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace topograd::view
