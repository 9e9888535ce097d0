// The graph of a symmetric sparse matrix by blocks, and an order in which its factor stays small.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace topograd::runtime {

/// Lower triangle of a symmetric matrix, compressed by columns, rows ascending, diagonal included.
struct LowerPattern {
  std::span<const int> starts;  ///< of each column, and the number of entries
  std::span<const int> rows;

  std::uint32_t columns() const { return static_cast<std::uint32_t>(starts.size()) - 1; }
  /// True if the diagonal entry of a column is in the pattern.
  bool has_diagonal(std::uint32_t c) const {
    const auto at = static_cast<std::size_t>(starts[c]);
    return starts[c] < starts[c + 1] && rows[at] == static_cast<int>(c);
  }
  /// Position of the first entry below the diagonal.
  std::uint32_t below(std::uint32_t c) const {
    return static_cast<std::uint32_t>(starts[c]) + (has_diagonal(c) ? 1 : 0);
  }
  std::span<const int> rows_below(std::uint32_t c) const {
    return rows.subspan(below(c), static_cast<std::size_t>(starts[c + 1]) - below(c));
  }
};

/// Blocks of adjacent columns that have the same entries, and which blocks meet. Unknowns of one
/// point or pose are such a block; ordering and analysis of blocks take a fraction of the time that
/// columns would.
struct BlockGraph {
  /// Cost: two passes over the entries on all threads, and one over the neighbours.
  explicit BlockGraph(const LowerPattern& lower);

  std::uint32_t size() const { return static_cast<std::uint32_t>(first.size()) - 1; }
  std::uint32_t width(std::uint32_t b) const { return first[b + 1] - first[b]; }
  std::span<const std::uint32_t> neighbours(std::uint32_t b) const {
    return std::span(items).subspan(starts[b], starts[b + 1] - starts[b]);
  }

  std::vector<std::uint32_t> first;          ///< column of each block, and the number of columns
  std::vector<std::uint32_t> starts, items;  ///< neighbours, without the block itself, ascending
  /// By neighbour: position of the other block's first row among the rows below the diagonal, in
  /// the first column of that of both blocks which comes first. The next column has it one earlier.
  std::vector<std::uint32_t> offsets;
};

/// Blocks in an order of approximately least degree. Ties are broken as by AMD and Eigen, the last
/// block that came to a degree first, so that the order is theirs.
///
/// Source: Amestoy, Davis, Duff, An Approximate Minimum Degree Ordering Algorithm, SIAM J. Matrix
/// Anal. Appl. 17 (1996).
std::vector<std::uint32_t> fill_reducing_order(const BlockGraph& graph);

}  // namespace topograd::runtime
