// The tiles in which fronts are stored and computed.
#pragma once

#include <cstdint>

namespace topograd::runtime {

/// Rows of a tile, and columns of the tiles on the diagonal: as many double-precision numbers as a
/// line of the cache and the widest registers have.
inline constexpr std::uint32_t kTile = 8;

}  // namespace topograd::runtime
