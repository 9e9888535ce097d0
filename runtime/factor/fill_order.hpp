// An order of elimination in which the factor of a sparse matrix stays small.
#pragma once

#include "block_graph.hpp"

#include <cstdint>
#include <vector>

namespace topograd::runtime {

/// Blocks in an order of approximately least degree. Ties are broken as by AMD and Eigen, the last
/// block that came to a degree first, so that the order is theirs.
///
/// Source: Amestoy, Davis, Duff, An Approximate Minimum Degree Ordering Algorithm, SIAM J. Matrix
/// Anal. Appl. 17 (1996).
std::vector<std::uint32_t> fill_reducing_order(const BlockGraph& graph);

}  // namespace topograd::runtime
