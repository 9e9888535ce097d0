// Finds blocks: of unknowns that belong together, and of rows that read the same blocks.
#pragma once

#include "row_groups.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace topograd::python {

/// Unknowns first ... first + width * count - 1 of x: `count` blocks of `width`.
struct UnknownArray {
  Index first = 0;
  Index width = 1;
  Index count = 0;
  Index end() const { return first + width * count; }
};

/// Divides x into arrays: those in `proposed` that do not meet an earlier one, and blocks of one
/// unknown for what lies between. In the order of x.
std::vector<UnknownArray> divide_unknowns(std::vector<UnknownArray> proposed, Index unknowns);

/// For each unknown: the number of its array.
std::vector<std::uint32_t> arrays_by_unknown(const std::vector<UnknownArray>& arrays,
                                             Index unknowns);

/// Joins rows that follow one another and read the same blocks, such as the two coordinates of an
/// image point, to residual blocks, which share their sub-expressions. A row that differs from
/// another one of its block in numbers alone begins a new block: a curve's points are single rows.
/// Blocks have at most eight rows. One element for each size of block; none if all rows are single.
///
///   rows  number of rows; each is in one group, as a block of one row
std::vector<BlockRows> join_rows(const std::vector<RowGroup>& groups, std::size_t rows,
                                 const std::vector<UnknownArray>& arrays, Index unknowns);

/// Joins the rows that unknowns connect, directly or by other rows: those of one trajectory, if
/// many are simulated side by side. Rows without unknowns are single rows. One element for each
/// size of block; none if fewer than `least` blocks have several rows.
///
/// Cost: linear in the elements of the nodes that the rows read.
std::vector<BlockRows> join_connected_rows(const ArrayGraph& graph, NodeId root, Index unknowns,
                                           std::size_t least);

}  // namespace topograd::python
