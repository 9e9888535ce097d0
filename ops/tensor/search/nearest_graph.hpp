// Internal: a graph over rows of numbers that proposes neighbours.
#pragma once

#include "nearest.hpp"

#include <cstdint>
#include <memory>
#include <span>

namespace topograd::ops::detail {

class NearestGraph {
 public:
  virtual ~NearestGraph() = default;
  /// Writes rows near the query, in any order, by Euclidean distance. Returns their number, at most
  /// out.size(). Thread-safe.
  virtual std::size_t near(const float* query, std::span<std::uint32_t> out) const = 0;
};

/// Null if the library was built without hnswlib. Throws Error{OutOfHostMemory}.
///
///   rows  n times d finite numbers
std::unique_ptr<NearestGraph> make_nearest_graph(std::span<const float> rows, std::size_t depth,
                                                 const NearestOptions& options);

}  // namespace topograd::ops::detail
