// Diagonal blocks of an array among those of all.
#pragma once

#include <cstdint>

namespace topograd::runtime::vulkan {

/// Place of the diagonal blocks of an array, and the width of the blocks that are inverted.
struct BlockRange {
  std::uint32_t x_first = 0;       ///< first scalar of the array
  std::uint32_t blocks_first = 0;  ///< position of its first packed triangle
  std::uint32_t count = 0;         ///< blocks
  std::uint32_t width = 1;
};

}  // namespace topograd::runtime::vulkan
