// Internal: builds without hnswlib have no graph.
#include "nearest_graph.hpp"

namespace topograd::ops::detail {

std::unique_ptr<NearestGraph> make_nearest_graph(std::span<const float>, std::size_t,
                                                 const NearestOptions&) {
  return nullptr;
}

std::unique_ptr<NearestGraph> load_nearest_graph(std::span<const float>, std::size_t,
                                                 const NearestOptions&,
                                                 std::span<const std::uint32_t>) {
  return nullptr;
}

}  // namespace topograd::ops::detail
