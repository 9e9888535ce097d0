// Frames: the state of a live solver after a solve, and their binary form for clients.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace topograd::view {

/// Milliseconds of the parts of a frame.
struct FrameTimes {
  double apply = 0;     ///< handles and weights into the problem
  double evaluate = 0;  ///< of the solve: residuals, costs, derivatives
  double linear = 0;    ///< of the solve: linear systems
  double solve = 0;     ///< the whole solve
  double color = 0;     ///< numbers of the colours
  double total = 0;     ///< from the first change to the frame
};

/// The result of one solve.
struct Frame {
  std::uint64_t number = 0;  ///< 1, 2, ... in the order of solves
  std::uint64_t drag = 0;    ///< serial number of the newest drag that it contains
  double cost = 0;
  double gradient = 0;  ///< largest |g_i|
  int steps = 0;        ///< of the solve
  std::string backend, device;
  std::string termination;
  std::uint64_t compiled = 0;  ///< shaders since the start
  double solves_per_second = 0, steps_per_second = 0;
  bool settled = false;  ///< further solves would not change anything
  FrameTimes milliseconds;
  std::vector<double> positions;  ///< three for each shown point
  std::vector<double> values;     ///< one for each shown point, for its colour; or empty
  double low = 0, high = 0;       ///< range of the values
};

/// A regular grid: point = origin + step · (i, j, k) with 0 <= i, j, k < 65536.
struct Grid {
  std::array<double, 3> origin = {};
  double step = 0;

  friend bool operator==(const Grid&, const Grid&) = default;
};
/// A grid for points whose bounding box it holds three times in each direction.
Grid grid_for(std::span<const double> positions);

/// Positions on a grid and colours, as clients have them after a frame.
struct Quantised {
  std::uint64_t number = 0;  ///< of the frame
  Grid grid;
  std::vector<std::uint16_t> cells;  ///< three for each point
  std::vector<std::uint8_t> colors;  ///< 0 .. 255 of the range; empty without colours
};
/// On the same grid if all points are within it, else on a new one. Points that are not finite are
/// at the grid's origin.
Quantised quantise(const Frame& frame, const Grid& grid);

/// The payload of a frame: blocks of 64 points, each with a byte of BlockBits and what that says.
/// Without `base` it stands for itself; with it, it holds differences, and `base` must have the
/// same grid and number of points.
///
/// Numbers are little-endian; those of a block are ordered by point, then by coordinate. Positions
/// come first. Cost: linear; at most 7 bytes for a point and one for a block.
std::string encode(const Quantised& frame, const Quantised* base);
enum BlockBits : std::uint8_t {
  kNoChange = 0,
  kSmall = 1,   ///< signed differences of 8 bits
  kLarge = 2,   ///< cells of 16 bits
  kColors = 4,  ///< 8 bits for each point
};
inline constexpr std::size_t kBlockPoints = 64;

/// Decodes a payload of encode(), applied to `base` (or to nothing). Throws Error{Parse} for a
/// payload that does not fit.
Quantised decode(std::string_view payload, std::size_t points, const Grid& grid,
                 const Quantised* base);

}  // namespace topograd::view
