// The graph of a symmetric sparse matrix, with columns of equal pattern as one block.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace topograd::runtime {

/// Lower triangle of a symmetric matrix, compressed by columns, rows ascending, diagonal included.
struct LowerPattern {
  std::span<const int> starts;  ///< of each column, and the number of entries
  std::span<const int> rows;

  std::uint32_t columns() const { return static_cast<std::uint32_t>(starts.size()) - 1; }
};

/// The entries left of the diagonal by rows: the other half of the symmetric pattern.
struct LeftEntries {
  explicit LeftEntries(const LowerPattern& lower);

  std::vector<std::uint32_t> starts;   // of each row, and the number of entries
  std::vector<std::uint32_t> columns;  // ascending in a row
  std::vector<std::uint32_t> values;   // their positions in the lower triangle
};

/// Blocks of adjacent columns that have the same entries, and which blocks meet. Unknowns of one
/// point or pose are such a block; ordering and analysis of blocks take a fraction of the time that
/// columns would.
struct BlockGraph {
  /// Cost: a few passes over the entries.
  BlockGraph(const LowerPattern& lower, const LeftEntries& left);

  std::uint32_t size() const { return static_cast<std::uint32_t>(first.size()) - 1; }
  std::uint32_t width(std::uint32_t b) const { return first[b + 1] - first[b]; }
  std::span<const std::uint32_t> neighbours(std::uint32_t b) const {
    return std::span(items).subspan(starts[b], starts[b + 1] - starts[b]);
  }

  std::vector<std::uint32_t> first;          ///< column of each block, and the number of columns
  std::vector<std::uint32_t> starts, items;  ///< neighbours, without the block itself, ascending
};

}  // namespace topograd::runtime
