// Costs of the instances of one batch, on their way to a sum over all batches.
#pragma once

#include "cost_sum.hpp"
#include "term_kernels.hpp"

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace topograd::runtime::cpu {

/// Makes costs from rows, energies or losses that a kernel has computed for a tile: one number by
/// instance, or one by tile, as the sum takes them.
template <class T>
class TermCosts {
 public:
  /// Both outlive it.
  TermCosts(const Term& term, const TermIndex& index) : term_(term), index_(index) {}

  /// Zeros for all instances, or for all tiles.
  std::vector<double> make(const CostSum& cost) const;
  /// Sets the numbers of the tile at instance `first`, from the worker's outputs from `output` on.
  void write(const Worker<T>& worker, std::size_t output, std::size_t first, std::size_t n,
             const CostSum& cost, std::vector<double>& costs) const;
  void add(Pool& pool, std::span<const double> costs, const BlockLayout& layout, CostSum& cost);

 private:
  /// A tile's cost, and those of its instances.
  double of_tile(const Worker<T>& worker, std::size_t output, std::size_t n) const;
  void of_instances(const Worker<T>& worker, std::size_t output, std::span<double> out) const;
  std::size_t rows() const { return term_.topology->program.outputs.size(); }

  const Term& term_;
  const TermIndex& index_;
  std::optional<InstancesByChunk> by_chunk_;  // made for the first cost
};

}  // namespace topograd::runtime::cpu
