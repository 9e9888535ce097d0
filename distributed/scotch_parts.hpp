// Internal: parts of a graph of chunks by Scotch.
#pragma once

#include "partition.hpp"

#include <vector>

namespace topograd::distributed {

/// The part of each chunk, below `parts`: about equal weights, few shared rows. Deterministic: one
/// thread, and the same random numbers in each call.
///
///   graph  with all edges, each in both directions
/// Throws Error{Internal} if Scotch fails.
std::vector<int> scotch_parts(const ChunkGraph& graph, int parts);

}  // namespace topograd::distributed
