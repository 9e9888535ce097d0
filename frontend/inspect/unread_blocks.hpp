// What residuals read: unknowns without any residual, rows without weight, and their counts.
#pragma once

#include "../problem.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace topograd {

/// A block of unknowns, with the number of its array in the order of adding.
struct UnreadBlock {
  std::size_t array = 0, block = 0;
};
/// The block as messages name it: parameter "spare".
std::string block_text(const Problem& problem, const UnreadBlock& block);

/// The blocks that no residual and no energy reads, in ascending order; a solve does not change
/// them. Fixed blocks count like others. Cost: one pass over the index columns.
std::vector<UnreadBlock> unread_blocks(const Problem& problem);
/// The blocks of which no scalar has a flag in `read`.
std::vector<UnreadBlock> unread_blocks(const Problem& problem, std::span<const std::uint8_t> read);

/// A flag for each scalar of x: 1 if a residual or an energy reads it.
std::vector<std::uint8_t> read_scalars(const Problem& problem);

/// Rows of residuals with weight 0: one of their factors is a data number or a uniform that is 0
/// now, so they are 0 whatever the unknowns are. Cost: one pass over the columns of such factors.
std::uint64_t rows_left_out(const Problem& problem);
/// The same flags without residuals of which all rows have weight 0.
std::vector<std::uint8_t> scalars_with_data(const Problem& problem);
/// Number of coordinates of the tangent spaces along which a solve can move the scalars with a flag
/// in `read`: fixed scalars do not count, and a block on a manifold counts by its dimension.
std::uint64_t free_coordinates(const Problem& problem, std::span<const std::uint8_t> read);

}  // namespace topograd
