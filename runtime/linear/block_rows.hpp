// The pattern of a symmetric block-sparse matrix: JᵀJ, or a Schur complement.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "../../ir/batch/unset_vector.hpp"
#include "../../ir/machine/parallel.hpp"

namespace topograd::runtime {

/// A matrix by rows of blocks: the blocks of a row are adjacent, ascending, so that its scalar rows
/// are dense rows of one length. Both triangles are stored.
///
/// Made in three steps: add() every block, place(), then list() the columns of every row.
class BlockRows {
 public:
  static constexpr std::uint32_t kWords = 4;

  BlockRows() = default;
  explicit BlockRows(std::size_t rows) : words_(rows * kWords) {}

  /// Adds the block at `column` to a row; `width` is its number of columns. Different rows
  /// may be added to concurrently.
  void add(std::uint32_t row, std::uint32_t column, std::uint32_t width) {
    words_[row * std::size_t{kWords} + 2] += width;
    if (column < row) words_[row * std::size_t{kWords} + 3] += width;
  }
  /// Sets the positions of all rows. Returns false if they do not fit in 32 bits.
  ///
  ///   width_of  scalars of a block
  template <class WidthOf>
  bool place(const WidthOf& width_of) {
    std::uint64_t columns = 0;
    for (std::uint32_t row = 0; row < size(); ++row) {
      std::uint32_t* const at = &words_[row * std::size_t{kWords}];
      at[0] = static_cast<std::uint32_t>(values_);
      at[1] = static_cast<std::uint32_t>(columns);
      values_ += std::uint64_t{at[2]} * width_of(row);
      columns += at[2];
      if (values_ > ~std::uint32_t{0}) return false;
    }
    columns_.resize(columns);
    return true;
  }
  /// Lists the columns of a row; different rows may be listed concurrently.
  ///
  ///   first, width  scalars of the diagonal block
  ///   each          calls its argument with the scalars of each other block, ascending
  template <class Each>
  void list(std::uint32_t row, std::uint32_t first, std::uint32_t width, const Each& each) {
    const Row at = this->row(row);
    std::uint32_t* to = columns_.data() + at.columns;
    const std::uint32_t* const diagonal = to + at.diagonal;
    const auto add = [&](std::uint32_t scalar, std::uint32_t count) {
      for (std::uint32_t k = 0; k < count; ++k) *to++ = scalar + k;
    };
    each([&](std::uint32_t scalar, std::uint32_t count) {
      if (to == diagonal) add(first, width);
      add(scalar, count);
    });
    if (to == diagonal) add(first, width);
  }

  struct Row {
    std::uint32_t values;    ///< position of its values
    std::uint32_t columns;   ///< position of its columns
    std::uint32_t length;    ///< scalars of a scalar row
    std::uint32_t diagonal;  ///< where in the row its diagonal block begins
  };
  std::size_t size() const { return words_.size() / kWords; }
  Row row(std::size_t block) const {
    const std::uint32_t* const at = &words_[block * kWords];
    return {at[0], at[1], at[2], at[3]};
  }
  std::span<const std::uint32_t> columns_of(std::size_t block) const {
    return std::span(columns_).subspan(row(block).columns, row(block).length);
  }
  /// Position of a block and its row's length, then those of its transpose.
  std::array<std::uint32_t, 4> location(std::uint32_t row, std::uint32_t column) const {
    return {position(row, column), this->row(row).length, position(column, row),
            this->row(column).length};
  }

  std::span<const std::uint32_t> words() const { return words_; }      ///< kWords each: a Row
  std::span<const std::uint32_t> columns() const { return columns_; }  ///< scalars
  std::uint64_t values() const { return values_; }                     ///< numbers
  /// Bytes of the numbers, their columns and the rows on a device.
  std::uint64_t bytes(std::uint64_t number_bytes) const {
    return values_ * number_bytes + sizeof(std::uint32_t) * (columns_.size() + words_.size());
  }

 private:
  std::uint32_t position(std::uint32_t row, std::uint32_t column) const {
    const auto columns = columns_of(row);
    const std::uint32_t first = columns_of(column)[this->row(column).diagonal];
    const auto at = std::ranges::lower_bound(columns, first);
    return this->row(row).values + static_cast<std::uint32_t>(at - columns.begin());
  }

  std::vector<std::uint32_t> words_;
  ir::UnsetPagedVector<std::uint32_t> columns_;
  std::uint64_t values_ = 0;
};

/// Blocks of one shape, neighbours in their list.
struct BlockShape {
  std::uint32_t rows = 0, columns = 0;
  std::uint32_t inner = 0;  ///< of products of two blocks: columns of the first one
  std::uint32_t first = 0, count = 0;
};

/// Contribution of one term to the blocks of a matrix: each is the sum of Jᵍᵀ Jʰ over its entries,
/// in their order, for the blocks g and h of an instance.
struct BlockProducts {
  std::size_t term = 0;
  std::vector<BlockShape> shapes;
  std::vector<std::uint32_t> outputs;  ///< by block: words that its plan defines
  std::vector<std::uint32_t> starts;   ///< first entry of each block, and the end
  std::vector<std::uint32_t> entries;  ///< 2 words: instance, groups of slots g | h << 16

  /// Appends blocks of one shape.
  ///
  ///   blocks      values from which the other two tell
  ///   outputs_of  the words of a block, an array
  ///   pairs_of    its pairs of blocks of an instance: a range of {instance, block_slots}
  template <class Blocks, class OutputsOf, class PairsOf>
  void add(std::uint32_t rows, std::uint32_t columns, const Blocks& blocks,
           const OutputsOf& outputs_of, const PairsOf& pairs_of) {
    const std::size_t first = starts.size(), words = outputs_of(blocks.front()).size();
    shapes.push_back({.rows = rows,
                      .columns = columns,
                      .first = static_cast<std::uint32_t>(first),
                      .count = static_cast<std::uint32_t>(blocks.size())});
    auto entry = static_cast<std::uint32_t>(entries.size() / 2);
    for (const auto& block : blocks) {
      starts.push_back(entry);
      entry += static_cast<std::uint32_t>(pairs_of(block).size());
    }
    entries.resize(2 * std::size_t{entry});
    outputs.resize(words * (first + blocks.size()));
    ir::parallel_for(std::size_t{0}, blocks.size(), [&](std::size_t k) {
      std::ranges::copy(outputs_of(blocks[k]), &outputs[words * (first + k)]);
      std::size_t to = 2 * std::size_t{starts[first + k]};
      for (const auto& pair : pairs_of(blocks[k])) {
        entries[to++] = pair.instance;
        entries[to++] = pair.block_slots;
      }
    });
  }
  /// Call after the last add().
  void end() { starts.push_back(static_cast<std::uint32_t>(entries.size() / 2)); }
};

}  // namespace topograd::runtime
