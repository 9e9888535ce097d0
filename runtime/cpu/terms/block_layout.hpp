// The unknowns as blocks: the block of each scalar, and the position of each block's numbers.
#pragma once

#include "../../model/model.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace topograd::runtime::cpu {

/// Blocks wider than this are preconditioned by their diagonal alone.
inline constexpr std::uint32_t kWidestDenseBlock = 16;

/// Blocks, and scalars, of one range of work.
inline constexpr std::size_t kBlocksPerRange = 4096;
inline constexpr std::size_t kScalarsPerRange = 16384;

/// Stored numbers of a symmetric block of that width: the packed upper triangle, or the diagonal.
constexpr std::uint64_t packed_size(std::uint32_t width) {
  return width <= kWidestDenseBlock ? std::uint64_t{width} * (width + 1) / 2 : width;
}
/// Position of (i, j), i <= j, in the packed upper triangle of a block.
constexpr std::uint32_t packed_index(std::uint32_t width, std::uint32_t i, std::uint32_t j) {
  return i * width - i * (i + 1) / 2 + j;
}

/// Blocks of all parameter arrays, numbered through.
class BlockLayout {
 public:
  struct Position {
    std::uint32_t block = 0;
    std::uint32_t coordinate = 0;
  };
  struct Block {
    std::uint64_t first = 0;   ///< its first scalar in x
    std::uint32_t width = 1;   ///< scalars
    std::uint64_t packed = 0;  ///< its first number in a vector of packed blocks
  };

  BlockLayout() = default;
  /// Throws Error{InvalidArgument} if there are more than 2^32 - 1 blocks.
  explicit BlockLayout(const std::vector<ParameterArray>& arrays);

  std::uint32_t blocks() const { return blocks_; }
  std::uint64_t scalars() const { return arrays_.empty() ? 0 : arrays_.back().end; }
  std::uint64_t packed_scalars() const { return packed_; }
  Position locate(std::uint64_t scalar) const;
  /// Width of a scalar's block.
  std::uint32_t width_at(std::uint64_t scalar) const { return array_of(scalar).width; }
  Block block(std::uint32_t k) const;
  /// Calls f(first block, count) for the runs of equal width within the blocks [begin, end).
  template <class F>
  void for_runs(std::uint32_t begin, std::uint32_t end, const F& f) const {
    for (std::size_t a = 0; a < arrays_.size(); ++a) {
      const std::uint32_t last = a + 1 < arrays_.size() ? arrays_[a + 1].first_block : blocks_;
      const std::uint32_t from = std::max(begin, arrays_[a].first_block);
      const std::uint32_t to = std::min(end, last);
      if (from < to) f(block(from), to - from);
    }
  }
  /// Calls f(scalar, number) for the diagonal of the blocks [begin, end): the number's offset in a
  /// vector of packed blocks.
  template <class F>
  void for_diagonal(std::uint32_t begin, std::uint32_t end, const F& f) const {
    for_runs(begin, end, [&](Block block, std::uint32_t count) {
      const std::uint32_t w = block.width;
      for (std::uint32_t k = 0; k < count; ++k) {
        for (std::uint32_t i = 0; i < w; ++i)
          f(block.first + i, block.packed + (w > kWidestDenseBlock ? i : packed_index(w, i, i)));
        block.first += w;
        block.packed += packed_size(w);
      }
    });
  }

 private:
  struct Array {
    std::uint64_t first, end;  // scalars
    std::uint32_t width;
    std::uint32_t first_block;
    std::uint64_t packed;
  };
  const Array& array_of(std::uint64_t scalar) const;

  std::vector<Array> arrays_;
  std::uint32_t blocks_ = 0;
  std::uint64_t packed_ = 0;
};

}  // namespace topograd::runtime::cpu
