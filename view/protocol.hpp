// Messages between a live solver and its pages: commands, states and frames as JSON and bytes.
#pragma once

#include "live/frame.hpp"
#include "live/live_solver.hpp"

#include "../api/formats/mesh/mesh.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace topograd::view {

/// A message of a page that is no command of a live solver.
struct Received {
  enum class Kind {
    command,
    acknowledgement,  ///< `frame` was drawn
    claim             ///< to be the writer if there is none
  };
  Kind kind = Kind::command;
  std::uint64_t frame = 0;
  std::optional<Command> command;
};

/// Reads {"do": "grab", "handle": 3, "vertex": 17, "radius": 0.1} and the others (docs/viewing.md).
/// Throws Error{Parse} for text that is no such message: unknown names and missing or malformed
/// values, such as numbers that are too large for their field; Error{InvalidArgument} for an
/// unknown colouring.
Received parse_message(std::string_view text);

/// The text that a page needs before the first frame: sizes, limits of weights, names of choices.
std::string scene_text(const LiveSolver& live);
/// Connections and start positions: the number of points, triangles and lines as 32-bit integers,
/// then 3 floats for each point, 3 indices for each triangle and 2 for each line.
std::string geometry_bytes(const LiveSolver& live);
std::string state_text(const State& state, bool writes, bool writer_is_there);

/// A frame for a client that has `base`, or has nothing: "TGF1", the size of the JSON text as a
/// 32-bit integer, the text, the payload of encode().
std::string frame_bytes(const Frame& frame, const Quantised& now, const Quantised* base);

/// A frame as a client reads it.
struct ReadFrame {
  std::uint64_t number = 0, base = 0, drag = 0;
  double cost = 0;
  Quantised points;
};
/// Throws Error{Parse}.
ReadFrame read_frame(std::string_view bytes, const Quantised* base);

/// A frame's points and triangles, and in OBJ files its lines.
std::string mesh_text(const LiveSolver& live, const Frame& frame, MeshFormat format);

}  // namespace topograd::view
