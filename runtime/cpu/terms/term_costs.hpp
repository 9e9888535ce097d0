// Costs of terms, and the ranges over which these and other scalar sums are taken.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "../../model/model.hpp"
#include "../tiles/pool.hpp"
#include "../tiles/tile_ops.hpp"
#include "term_index.hpp"
#include "term_kernels.hpp"

namespace topograd::runtime::cpu {

/// Scalar sums over the unknowns are sums over ranges, added pairwise in the order of the ranges.
/// By default ranges are large. By chunk, they are those of chunks_of(), or those of a part of the
/// model: then sums have the same bits for any division of the model.
class SumRanges {
 public:
  /// By default, the ranges of of_scalars() have no blocks.
  using Range = Chunk;

  ///   by_chunk  true if `part` is not null
  ///   part      null: the engine has the whole model
  SumRanges(bool by_chunk, std::shared_ptr<const ModelPart> part)
      : by_chunk_(by_chunk || part != nullptr), part_(std::move(part)) {}

  void follow(const BlockLayout& layout, std::span<const ParameterArray> arrays);

  bool by_chunk() const { return by_chunk_; }
  /// True if ghosts and sums are exchanged with other parts.
  bool is_part() const { return part_ != nullptr; }
  std::span<const Range> of_scalars() const { return by_chunk_ ? chunks_ : scalars_; }
  std::span<const Range> of_blocks() const { return by_chunk_ ? chunks_ : blocks_; }
  /// The range of chunks that has the block; of_blocks().size() if it is a ghost's.
  std::size_t chunk_of(std::uint32_t block) const { return find_chunk(chunks_, block); }
  /// True if some of the other parts are on devices.
  bool is_mixed() const { return part_ != nullptr && part_->mixed; }
  /// True if other parts have energies, or may have.
  bool others_have_energies() const { return part_ != nullptr && part_->has_energies; }
  /// The range in which residuals without parameters count.
  std::size_t chunk_of_constants() const;

  /// Numbers of ranges, a column for each of N.
  template <std::size_t N>
  using Columns = std::array<std::vector<double>, N>;

  /// Calls f(range) for each range, in any order; f returns N numbers. Returns those of all ranges
  /// of the whole model.
  template <std::size_t N, class F>
  Columns<N> collect(Pool& pool, std::span<const Range> ranges, const F& f) const {
    Columns<N> columns;
    for (std::vector<double>& column : columns) column.resize(ranges.size());
    pool.for_ranges(ranges.size(), 1, [&](std::size_t k, std::size_t) {
      const std::array<double, N> numbers = f(ranges[k]);
      for (std::size_t c = 0; c < N; ++c) columns[c][k] = numbers[c];
    });
    complete(columns);
    return columns;
  }
  /// The sums of those.
  template <std::size_t N, class F>
  std::array<double, N> sums(Pool& pool, std::span<const Range> ranges, const F& f) const {
    const Columns<N> columns = collect<N>(pool, ranges, f);
    std::array<double, N> totals;
    for (std::size_t c = 0; c < N; ++c) totals[c] = pairwise_sum(columns[c]);
    return totals;
  }
  template <class F>
  double sum(Pool& pool, std::span<const Range> ranges, const F& f) const {
    return sums<1>(pool, ranges, [&](const Range& range) { return std::array{f(range)}; })[0];
  }

  /// Replaces numbers of this part's ranges by those of all ranges of the model.
  template <std::size_t N>
  void complete(Columns<N>& columns) const {
    if (part_ != nullptr) complete(std::span<std::vector<double>>(columns));
  }

  /// Copies to ghosts the numbers of the scalars whose copies they are.
  template <class T>
  void fill_ghosts(T* v) const {
    if (part_ != nullptr) part_->link->fill_ghosts(std::span<T>(v, all_scalars_));
  }

 private:
  void complete(std::span<std::vector<double>> columns) const;

  bool by_chunk_;
  std::shared_ptr<const ModelPart> part_;
  std::uint64_t all_scalars_ = 0;
  std::vector<Range> scalars_, blocks_;  // by default
  std::vector<Range> chunks_;
};

/// The largest number; NaN if there is one.
double largest_of(std::span<const double> values);

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
