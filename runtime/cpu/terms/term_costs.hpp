// Costs of terms: by instance, as sums over the instances of all terms, and squares of stored rows.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "../tiles/pool.hpp"
#include "../tiles/tile_ops.hpp"
#include "sum_ranges.hpp"
#include "term_index.hpp"
#include "term_kernels.hpp"

namespace topograd::runtime::cpu {

/// The instances of one term by the chunk of their first parameter slot, ascending.
struct InstancesByChunk {
  std::vector<std::uint32_t> starts;     ///< of range k: starts[k] .. starts[k + 1]
  std::vector<std::uint32_t> instances;  ///< without those that count in other parts

  /// Cost: two passes over the index column.
  InstancesByChunk(const TermIndex& index, const BlockLayout& layout, const SumRanges& ranges);
};

/// Adds numbers of tiles, term by term; or, by chunk, numbers of instances, so that the sum does
/// not depend on the division of the model.
class CostSum {
 public:
  explicit CostSum(const SumRanges& ranges);

  bool by_chunk() const { return ranges_.by_chunk(); }
  const SumRanges& ranges() const { return ranges_; }
  /// A term's numbers by tile.
  void add_tiles(bool energy, std::span<const double> tiles);
  /// A term's numbers by instance.
  void add_instances(Pool& pool, bool energy, std::span<const double> numbers,
                     const InstancesByChunk& order);
  struct Totals {
    double squares = 0, energies = 0;
  };
  /// Sums over all parts of the model.
  Totals totals();

 private:
  const SumRanges& ranges_;
  Totals whole_;
  SumRanges::Columns<2> by_chunk_;  // squares, energies
};

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

/// Sum of squares over a tile in double, in an order that is independent of the rows' position.
class TileSquares {
 public:
  template <class T>
  void add(const T* row, double scale, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) {
      const double r = row == nullptr ? scale : scale * double{row[i]};
      lanes_[i % kLanes] += r * r;
    }
  }
  double sum() const { return pairwise_sum(lanes_); }

 private:
  double lanes_[kLanes] = {};
};

}  // namespace topograd::runtime::cpu
