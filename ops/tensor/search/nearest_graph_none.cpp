// Internal: builds without hnswlib have no graph.
#include "nearest_graph.hpp"

namespace topograd::ops::detail {

std::unique_ptr<NearestGraph> make_nearest_graph(std::span<const float>, std::size_t,
                                                 const NearestOptions&) {
  return nullptr;
}

}  // namespace topograd::ops::detail
