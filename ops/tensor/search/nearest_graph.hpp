// Internal: a graph over rows of numbers that proposes neighbours.
#pragma once

#include "nearest.hpp"

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace topograd::ops::detail {

class NearestGraph {
 public:
  virtual ~NearestGraph() = default;
  /// Writes rows near the query, in any order, by Euclidean distance. Returns their number, at most
  /// out.size(). Thread-safe.
  virtual std::size_t near(const float* query, std::span<std::uint32_t> out) const = 0;
  /// Adds rows behind the present ones. Throws Error{OutOfHostMemory}; the graph is then unchanged.
  virtual void add(std::span<const float> rows) = 0;
  /// The whole graph, for load_nearest_graph().
  virtual std::vector<std::uint32_t> links() const = 0;
};

/// Null if the library was built without hnswlib. Throws Error{OutOfHostMemory}.
///
///   rows  n times d finite numbers
std::unique_ptr<NearestGraph> make_nearest_graph(std::span<const float> rows, std::size_t depth,
                                                 const NearestOptions& options);

/// Makes a graph from its rows and links(), which are checked. Null without hnswlib. Throws
/// Error{Parse}, Error{OutOfHostMemory}.
std::unique_ptr<NearestGraph> load_nearest_graph(std::span<const float> rows, std::size_t depth,
                                                 const NearestOptions& options,
                                                 std::span<const std::uint32_t> links);

}  // namespace topograd::ops::detail
