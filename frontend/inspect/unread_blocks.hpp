// Unknowns that no residual reads: often a mistake in the code that adds residuals.
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

}  // namespace topograd
