// The stored linearisation of one batch on the CPU.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "../../model/listed_system.hpp"
#include "../tiles/pool.hpp"
#include "term.hpp"
#include "term_index.hpp"

namespace topograd::runtime::cpu {

/// Sums over the windows of an index. A sweep reads the terms in order and writes nearby, while
/// lists by block (block_sums.hpp) read them in another order. The ranges depend on the instances
/// alone, so that the sums have the same bits for any number of threads.
class WindowSums {
 public:
  /// `index` outlives it.
  explicit WindowSums(const TermIndex& index)
      : index_(index), windows_(find_windows(index)), sums_(windows_.numbers()) {}

  /// True if the windows are much smaller than the terms; otherwise add() must not be used.
  bool pay() const { return windows_.ranges > 0; }

  /// out += the sums by scalar of the terms of all slots and instances.
  ///
  ///   run(first, n)  evaluates a tile of n instances; returns a function from slots to n terms
  template <class T, class Run>
  void add(Pool& pool, std::size_t scalars, const Run& run, T* out);

  std::uint64_t bytes() const { return sums_.size() * sizeof(double); }

 private:
  static constexpr std::size_t kScalarsPerSum = 4096;

  template <class Run>
  void add_range(std::size_t range, const Run& run);
  template <class T>
  void add_column(const Windows::Window& window, const SlotSource& source, const T* terms,
                  std::size_t first, std::size_t n);

  const TermIndex& index_;
  Windows windows_;
  std::vector<double> sums_;
};

template <class T>
void WindowSums::add_column(const Windows::Window& window, const SlotSource& source, const T* terms,
                            std::size_t first, std::size_t n) {
  const std::uint32_t* const base = index_.block_slots[source.block_slot].base.data() + first;
  double* const sums = sums_.data() + window.at;
  const std::uint32_t shift = source.offset - window.first;  // modulo 2³²
  for (std::size_t i = 0; i < n; ++i) sums[base[i] + shift] += double{terms[i]};
}

template <class Run>
void WindowSums::add_range(std::size_t range, const Run& run) {
  const Windows::Window &first = windows_.at(range, 0),
                        &last = windows_.at(range, windows_.block_slots - 1);
  std::fill(sums_.data() + first.at, sums_.data() + last.at + last.size, 0.0);
  const std::size_t end = std::min(index_.instances, (range + 1) * windows_.per_range);
  for (std::size_t at = range * windows_.per_range; at < end; at += kTile) {
    const std::size_t n = std::min(kTile, end - at);
    const auto terms = run(at, n);
    for (std::uint32_t slot = 0; slot < index_.slots.size(); ++slot) {
      const SlotSource& source = index_.slots[slot];
      add_column(windows_.at(range, source.block_slot), source, terms(slot), at, n);
    }
  }
}

template <class T, class Run>
void WindowSums::add(Pool& pool, std::size_t scalars, const Run& run, T* out) {
  pool.for_ranges(windows_.ranges, 1, [&](std::size_t begin, std::size_t end) {
    for (std::size_t range = begin; range < end; ++range) add_range(range, run);
  });
  pool.for_ranges(scalars, kScalarsPerSum, [&](std::size_t begin, std::size_t end) {
    for (const Windows::Window& window : windows_.windows) {
      const std::size_t from = std::max<std::size_t>(begin, window.first);
      const std::size_t to = std::min<std::size_t>(end, std::size_t{window.first} + window.size);
      for (std::size_t k = from; k < to; ++k)
        out[k] += static_cast<T>(sums_[window.at + (k - window.first)]);
    }
  });
}

/// r and J of a batch of residuals at the point of the last linearize(), in columns.
template <class T>
class LinearTerm {
 public:
  explicit LinearTerm(std::shared_ptr<TermState<T>> term) : term_(std::move(term)) {}

  const TermState<T>* term() const { return term_.get(); }

  void linearize(Pool& pool, Workers<T>& workers, const Vectors<T>& v);
  /// out += Jᵀr.
  void add_gradient(Pool& pool, const BlockLayout& layout, T* out) const;
  /// out += diagonal blocks of JᵀJ.
  void add_blocks(Pool& pool, const BlockLayout& layout, T* out) const;
  /// out += diagonal of JᵀJ.
  void add_diagonal(Pool& pool, const BlockLayout& layout, T* out) const;
  /// Copies J, [instance][row][slot], with zeros for fixed scalars.
  void copy_jacobian(Pool& pool, const std::vector<std::uint8_t>& constant,
                     std::span<double> out) const;
  /// Computes and keeps u = J·p; p is v.p.
  void apply(Pool& pool, Workers<T>& workers, const Vectors<T>& v);
  /// out += Jᵀ(J·p); may overwrite the result of apply().
  ///
  ///   by_block  adds the terms of each block in the order of instances, whatever is faster
  void add_jtjp(Pool& pool, Workers<T>& workers, const Vectors<T>& v, const BlockLayout& layout,
                std::size_t scalars, bool by_block, T* out);
  /// Adds Σ r² (or Σ ρ) at v.x, the point of the linearisation.
  void add_residual_square(Pool& pool, Workers<T>& workers, const Vectors<T>& v,
                           const BlockLayout& layout, CostSum& cost) const;
  /// Adds Σ u² of the last apply().
  void add_applied_square(Pool& pool, const BlockLayout& layout, CostSum& sum) const;

  /// J·p and the sums of JᵀJ·p as lists, for a device; nothing where the sums are of another form.
  std::optional<ListedTerm> listed(const BlockLayout& layout) const;
  /// The columns that linearize() has stored.
  std::span<const Column<T>> columns() const { return linear_; }

  /// Bytes of stored results.
  std::uint64_t bytes() const;

 private:
  const TermIndex& index() const { return term_->index(); }
  Products<T> products_with(std::span<const Stored<T>> rows) const;
  StoredJacobian<T> stored_jacobian() const;
  std::vector<Stored<T>> stored_residuals() const;
  std::vector<Stored<T>> applied_rows() const;
  void clear_constant(const std::vector<std::uint8_t>& constant, std::size_t begin, std::size_t end,
                      std::size_t rows, std::span<double> out) const;
  void add_square(Pool& pool, std::span<const Stored<T>> rows, const BlockLayout& layout,
                  CostSum& sum) const;

  std::shared_ptr<TermState<T>> term_;
  std::vector<Column<T>> linear_;      // rows and J
  std::vector<Column<T>> applied_;     // J·p
  std::optional<WindowSums> windows_;  // made for the first product
};

}  // namespace topograd::runtime::cpu
