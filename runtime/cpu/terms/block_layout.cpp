// Numbering of blocks.
#include "block_layout.hpp"

#include "../../../ir/error.hpp"

#include <algorithm>
#include <limits>
#include <string>

namespace topograd::runtime::cpu {

BlockLayout::BlockLayout(const std::vector<ParameterArray>& arrays) {
  std::uint64_t blocks = 0;
  for (const ParameterArray& a : arrays) {
    arrays_.push_back({.first = a.offset,
                       .end = a.offset + a.width * a.blocks,
                       .width = a.width,
                       .first_block = static_cast<std::uint32_t>(blocks),
                       .packed = packed_});
    blocks += a.blocks;
    packed_ += packed_size(a.width) * a.blocks;
  }
  if (blocks >= std::numeric_limits<std::uint32_t>::max()) {
    throw Error(ErrorCode::InvalidArgument,
                "cpu engine: expected fewer than 4294967295 parameter "
                "blocks, got " +
                    std::to_string(blocks));
  }
  blocks_ = static_cast<std::uint32_t>(blocks);
}

const BlockLayout::Array& BlockLayout::array_of(std::uint64_t scalar) const {
  if (arrays_.size() == 1) return arrays_[0];
  const auto after = [](std::uint64_t s, const Array& a) { return s < a.first; };
  return *(std::upper_bound(arrays_.begin(), arrays_.end(), scalar, after) - 1);
}

BlockLayout::Position BlockLayout::locate(std::uint64_t scalar) const {
  const Array& a = array_of(scalar);
  const std::uint64_t within = scalar - a.first;
  return {static_cast<std::uint32_t>(a.first_block + within / a.width),
          static_cast<std::uint32_t>(within % a.width)};
}

BlockLayout::Block BlockLayout::block(std::uint32_t k) const {
  const auto after = [](std::uint32_t b, const Array& a) { return b < a.first_block; };
  const Array& a = arrays_.size() == 1
                       ? arrays_[0]
                       : *(std::upper_bound(arrays_.begin(), arrays_.end(), k, after) - 1);
  const std::uint64_t within = k - a.first_block;
  return {a.first + within * a.width, a.width, a.packed + within * packed_size(a.width)};
}

}  // namespace topograd::runtime::cpu
