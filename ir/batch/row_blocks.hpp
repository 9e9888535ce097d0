// Memory of a batch's rows: blocks of columns that share large pages.
#pragma once

#include "pages.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace topograd::ir {

/// Blocks of kRows rows, by column. Only the first one grows, from a few rows on; the others never
/// move, and those of a long batch share large pages. The user counts the rows in use.
class RowBlocks {
 public:
  static constexpr std::size_t kRows = 4096;

  struct Block {
    std::size_t rows = 0;                // capacity
    std::size_t stride = 0;              // elements from one column to the next
    std::uint64_t* row = nullptr;        // start of the block's memory: rows, data, indices
    double* data = nullptr;              // column-major
    std::uint32_t* index = nullptr;      // column-major
    std::unique_ptr<std::byte[]> owned;  // null if the block is in large pages
  };

  RowBlocks(std::uint32_t index_columns, std::uint32_t data_columns)
      : index_columns_(index_columns), data_columns_(data_columns) {}

  std::uint32_t index_columns() const { return index_columns_; }
  std::uint32_t data_columns() const { return data_columns_; }

  /// The block of a row, which is row % kRows of it.
  const Block& of(std::size_t row) const { return blocks_[row / kRows]; }
  const Block& operator[](std::size_t block) const { return blocks_[block]; }
  /// Makes room for one row or more after `used` rows: all `rows` if they fit in the first block,
  /// which moves as it grows.
  void make_room(std::size_t used, std::size_t rows);
  /// Bytes of all blocks, unused capacity included.
  std::size_t bytes() const;

 private:
  std::size_t bytes_of(std::size_t stride) const;
  std::byte* place_in_pages(std::size_t bytes);
  Block make_block(std::size_t rows);

  std::uint32_t index_columns_, data_columns_;
  std::vector<Block> blocks_;
  std::vector<Pages> pages_;
  std::size_t used_ = 0;  // bytes in use in the last page
};

}  // namespace topograd::ir
