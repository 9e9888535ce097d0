// Approximate minimum degree by Eigen.
#include "fill_order.hpp"

#include <Eigen/OrderingMethods>
#include <Eigen/SparseCore>

namespace topograd::runtime {

std::vector<std::uint32_t> fill_reducing_order(const BlockGraph& graph) {
  using Matrix = Eigen::SparseMatrix<double>;
  // Eigen takes columns without a diagonal entry for dense ones.
  std::vector<int> starts{0}, rows;
  for (std::uint32_t b = 0; b < graph.size(); ++b) {
    rows.push_back(static_cast<int>(b));
    for (const std::uint32_t neighbour : graph.neighbours(b))
      if (neighbour > b) rows.push_back(static_cast<int>(neighbour));
    starts.push_back(static_cast<int>(rows.size()));
  }
  const auto n = static_cast<Eigen::Index>(graph.size());
  const std::vector<double> zeros(rows.size());
  const Eigen::Map<const Matrix> lower(n, n, static_cast<Eigen::Index>(rows.size()), starts.data(),
                                       rows.data(), zeros.data());
  Eigen::AMDOrdering<int>::PermutationType order;
  Eigen::AMDOrdering<int>()(lower.selfadjointView<Eigen::Lower>(), order);
  return {order.indices().begin(), order.indices().end()};
}

}  // namespace topograd::runtime
