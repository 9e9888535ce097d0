// Sums over the instances of all terms: costs, and squares of stored rows.
#pragma once

#include "sum_ranges.hpp"
#include "term_index.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

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

}  // namespace topograd::runtime::cpu
