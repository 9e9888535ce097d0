// Costs by tile and by instance.
#include "term_costs.hpp"

#include "tile_squares.hpp"

#include <algorithm>
#include <array>

namespace topograd::runtime::cpu {

template <class T>
double TermCosts<T>::of_tile(const Worker<T>& worker, std::size_t output, std::size_t n) const {
  if (term_.energy) {
    std::array<double, kTile> values;
    std::copy_n(worker.output(output), n, values.data());
    return pairwise_sum(std::span(values).first(n));
  }
  if (term_.loss != nullptr) {
    double sum = 0;
    for (std::size_t i = 0; i < n; ++i) sum += double{worker.output(output)[i]};
    return 2 * sum;
  }
  TileSquares squares;
  for (std::size_t k = 0; k < rows(); ++k) squares.add(worker.output(output + k), 1.0, n);
  return squares.sum();
}

template <class T>
void TermCosts<T>::of_instances(const Worker<T>& worker, std::size_t output,
                                std::span<double> out) const {
  if (term_.energy || term_.loss != nullptr) {
    const double factor = term_.energy ? 1 : 2;
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = factor * double{worker.output(output)[i]};
    return;
  }
  std::ranges::fill(out, 0.0);
  for (std::size_t k = 0; k < rows(); ++k) {
    const T* const row = worker.output(output + k);
    for (std::size_t i = 0; i < out.size(); ++i) out[i] += double{row[i]} * double{row[i]};
  }
}

template <class T>
std::vector<double> TermCosts<T>::make(const CostSum& cost) const {
  const std::size_t padded = whole_tiles(index_.instances);
  return std::vector<double>(cost.by_chunk() ? padded : padded / kTile);
}

template <class T>
void TermCosts<T>::write(const Worker<T>& worker, std::size_t output, std::size_t first,
                         std::size_t n, const CostSum& cost, std::vector<double>& costs) const {
  if (cost.by_chunk()) return of_instances(worker, output, std::span(costs).subspan(first, n));
  costs[first / kTile] = of_tile(worker, output, n);
}

template <class T>
void TermCosts<T>::add(Pool& pool, std::span<const double> costs, const BlockLayout& layout,
                       CostSum& cost) {
  if (!cost.by_chunk()) return cost.add_tiles(term_.energy, costs);
  if (!by_chunk_) by_chunk_.emplace(index_, layout, cost.ranges());
  cost.add_instances(pool, term_.energy, costs, *by_chunk_);
}

template class TermCosts<float>;
template class TermCosts<double>;

}  // namespace topograd::runtime::cpu
