// The stored linearisation of one batch on the CPU.
#pragma once

#include "term.hpp"
#include "window_sum.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace topograd::runtime::cpu {

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
  ///   by_owner  adds the terms of each block in the order of instances, whatever is faster
  void add_jtjp(Pool& pool, Workers<T>& workers, const Vectors<T>& v, const BlockLayout& layout,
                std::size_t scalars, bool by_owner, T* out);
  /// Adds Σ r² (or Σ ρ) at v.x, the point of the linearisation.
  void add_residual_square(Pool& pool, Workers<T>& workers, const Vectors<T>& v,
                           const BlockLayout& layout, CostSum& cost) const;
  /// Adds Σ u² of the last apply().
  void add_applied_square(Pool& pool, const BlockLayout& layout, CostSum& sum) const;

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
