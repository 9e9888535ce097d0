// A row of a batch before it is appended.
#pragma once

#include <cstdint>
#include <vector>

namespace topograd::detail {

/// One row of a batch, as read from the tape.
struct Row {
  std::vector<std::uint32_t> indices;  ///< parameter slots, then uniform slots
  std::vector<double> data;
  /// Entries of the data arrays that `data` was read from, or kNoSource; empty if none was.
  std::vector<std::uint32_t> sources;
};

/// The number comes from the user's expression and cannot be set later.
inline constexpr std::uint32_t kNoSource = ~std::uint32_t{0};

}  // namespace topograd::detail
