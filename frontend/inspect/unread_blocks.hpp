// Unknowns that nothing reads: often a slip in the code that adds residuals.
#pragma once

#include "../problem.hpp"

#include <cstddef>
#include <string>
#include <vector>

namespace topograd {

/// A block of unknowns, by the number of its array in the order of adding.
struct UnreadBlock {
  std::size_t array = 0, block = 0;
};
/// As messages call it: parameter "spare".
std::string block_text(const Problem& problem, const UnreadBlock& block);

/// The blocks that no residual and no energy reads, in ascending order; a solve leaves them as they
/// are. Constant blocks count like others. Cost: one pass over the index columns.
std::vector<UnreadBlock> unread_blocks(const Problem& problem);

}  // namespace topograd
