// How the instances of one batch touch the unknowns: blocks, index columns, and block slots.
#pragma once

#include "../../../ir/batch/batch.hpp"
#include "../../model/model.hpp"
#include "../tiles/column.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
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

/// Parameter slots at fixed distances in the same block in every instance: the tail of an edge, its
/// head. They share one index column.
struct BlockSlot {
  Column<std::uint32_t> base;          ///< scalar in x by instance; padded to whole tiles
  std::vector<std::uint32_t> slots;    ///< parameter slots
  std::vector<std::uint32_t> offsets;  ///< of each slot from the base
  bool fixed = true;                   ///< the base has the same coordinate in every block
  std::uint32_t coordinate = 0;        ///< of the base, if fixed; otherwise there is one slot
  std::uint32_t width = 0;             ///< of its blocks, 0 if they differ
};

/// Source of an index slot: x[block_slot.base[i] + offset].
struct SlotSource {
  std::uint32_t block_slot = 0;
  std::uint32_t offset = 0;
};

/// Source of a uniform slot: one position for all instances, or a column of them.
struct UniformSource {
  std::uint32_t position = 0;
  Column<std::uint32_t> column;  ///< empty if `position` holds for all
};

/// Longer lists are split, so that one shared block keeps all threads busy.
inline constexpr std::uint32_t kLongList = 4096;

/// A piece of a long list; the entries of one instance stay together.
struct ListSegment {
  std::uint32_t block = 0;  ///< position in BlockLists::blocks
  std::uint32_t begin = 0, end = 0;
};

/// Instances by the block they touch. Entries of a block ascend by instance, then by block slot.
struct BlockLists {
  std::uint32_t block_slot_bits = 0;
  std::vector<std::uint32_t> blocks;  ///< touched blocks, ascending
  std::vector<std::uint32_t> starts;  ///< entries of blocks[k]: starts[k] .. starts[k + 1]
  Column<std::uint32_t> entries;      ///< instance << block_slot_bits | block_slot
  std::vector<ListSegment> segments;  ///< of the lists longer than kLongList
  bool aliased = false;               ///< true if an instance touches a block in two block slots

  std::uint32_t instance(std::uint32_t entry) const { return entry >> block_slot_bits; }
  std::uint32_t block_slot(std::uint32_t entry) const {
    return entry & ((1U << block_slot_bits) - 1);
  }
};

/// Index columns of one batch.
struct TermIndex {
  std::size_t instances = 0;
  std::vector<BlockSlot> block_slots;
  std::vector<SlotSource> slots;        ///< by parameter slot
  std::vector<UniformSource> uniforms;  ///< by uniform slot
  std::uint64_t first_row = 0;          ///< residual row of instance i: first_row + i * row_stride,
  std::uint64_t row_stride = 0;
  std::vector<std::uint64_t> rows;  ///< or rows[i] if this is not empty
  BlockLists block_lists;

  std::uint64_t row(std::size_t instance) const {
    return rows.empty() ? first_row + instance * row_stride : rows[instance];
  }
};

/// Reads the index columns and inverts them.
///
/// Throws Error{InvalidArgument} if an index is not below `scalars`, a uniform's not below
/// `uniforms`, or if instances times block slots exceed 32 bits. Cost: a few passes over the
/// columns.
TermIndex build_index(const ir::Batch& batch, const BlockLayout& layout, std::uint64_t scalars,
                      std::size_t uniforms);

/// Ranges of instances, and the scalars that each range touches in each block slot.
struct Windows {
  /// Scalars [first, first + size); its numbers start at `at` in the numbers of all windows.
  struct Window {
    std::uint32_t first = 0, size = 0;
    std::size_t at = 0;
  };
  std::size_t per_range = 0;  ///< instances of a range, whole tiles
  std::size_t ranges = 0;     ///< 0 if the windows are not much smaller than the terms
  std::size_t block_slots = 0;
  std::vector<Window> windows;  ///< by range, then by block slot

  const Window& at(std::size_t range, std::size_t block_slot) const {
    return windows[range * block_slots + block_slot];
  }
  std::size_t numbers() const {
    return windows.empty() ? 0 : windows.back().at + windows.back().size;
  }
};

/// Cost: a pass over the index columns.
Windows find_windows(const TermIndex& index);

/// The inversion alone.
BlockLists invert(std::span<const BlockSlot> block_slots, std::size_t instances,
                  const BlockLayout& layout);

/// A batch's data column in the precision of the kernels, padded to whole tiles with its last
/// number.
template <class T>
Column<T> read_data_column(const ir::Batch& batch, std::uint32_t column);

}  // namespace topograd::runtime::cpu
