// The terms of a model on the interpreter.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "../engine/engine.hpp"
#include "terms/term.hpp"
#include "terms/term_costs.hpp"

namespace topograd::runtime::cpu {

/// Bounds by scalar; empty: the unknowns have none. Where x is in T, bounds are rounded to T like
/// x, so that x stays exactly on its bound. Comparisons keep NaN.
struct Box {
  std::vector<double> lower, upper;

  bool empty() const { return lower.empty(); }
  /// Clamps x to the box.
  void clamp(std::span<double> x) const {
    for (std::size_t i = 0; i < lower.size(); ++i) {
      if (x[i] < lower[i]) x[i] = lower[i];
      if (x[i] > upper[i]) x[i] = upper[i];
    }
  }
  /// The number nearest to x that scalar i may have.
  template <class T>
  T nearest(std::size_t i, T x) const {
    if (empty()) return x;
    if (x < static_cast<T>(lower[i])) x = static_cast<T>(lower[i]);
    if (x > static_cast<T>(upper[i])) x = static_cast<T>(upper[i]);
    return x;
  }
  /// The part of the gradient's entry that the box leaves free: x minus the nearest to x − g, which
  /// may be rounded to x.
  template <class T>
  T projected_gradient(std::size_t i, T x, T g) const {
    if (empty()) return g;
    const T below = x - static_cast<T>(lower[i]), above = x - static_cast<T>(upper[i]);
    return g > below ? below : g < above ? above : g;
  }
  /// True if scalar i is on a bound against which the gradient pushes.
  template <class T>
  bool holds(std::size_t i, T x, T gradient) const {
    return (x <= static_cast<T>(lower[i]) && gradient > 0) ||
           (x >= static_cast<T>(upper[i]) && gradient < 0);
  }
};

/// Throws Error{Shape} that names the call unless `got` is what was expected.
void check_size(const char* call, const char* what, std::size_t expected, std::size_t got);

/// Evaluates sums and rows over all terms of a model, at points that the caller owns. Vectors have
/// a number for each scalar of the model.
template <class T>
class CpuTerms {
 public:
  ///   device  evaluates the kernels of the terms in T; null: the interpreter
  CpuTerms(const EngineOptions& options, Bits bits, std::unique_ptr<RowRunner> device = nullptr)
      : bits_(bits),
        device_(std::move(device)),
        pool_(options.threads),
        sums_(options.deterministic, options.part) {}

  /// Reads what has changed of the model. Returns true if it has other unknowns than before.
  bool follow(const Model& model);

  Pool& pool() { return pool_; }
  const Pool& pool() const { return pool_; }
  Workers<T>& workers() { return workers_; }
  const BlockLayout& layout() const { return layout_; }
  Bits bits() const { return bits_; }
  /// Null: the interpreter.
  const RowRunner* device() const { return device_.get(); }
  /// Kernels in stats() that ran on it.
  std::uint64_t runs_on_device() const;
  /// The ranges of scalar sums; exchanges with other parts of the model.
  const SumRanges& sums() const { return sums_; }
  std::uint64_t scalars() const { return scalars_; }
  std::uint64_t rows() const { return rows_; }
  /// Fixed scalars, by scalar; empty: none.
  const std::vector<std::uint8_t>& constant() const { return constant_; }
  const Box& box() const { return box_; }
  EngineStats& stats() { return stats_; }
  const EngineStats& stats() const { return stats_; }
  const std::vector<std::shared_ptr<TermState<T>>>& all() const { return terms_; }
  Vectors<T> vectors(const Column<T>& x, const Column<T>* p = nullptr) const {
    return {x.data(), p == nullptr ? nullptr : p->data(), uniforms_.data()};
  }
  /// For kernels that read tangents alone.
  Vectors<T> along(const T* p) const { return {nullptr, p, uniforms_.data()}; }

  // Vectors.
  void zero(Column<T>& v);
  /// Sets the scalars of `fixed` to zero; an empty list has none.
  void mask(Column<T>& v, const std::vector<std::uint8_t>& fixed);
  void read(std::span<const double> in, Column<T>& v);
  void write(const Column<T>& v, std::span<double> out);

  // Evaluations; counted.
  double cost(const Column<T>& x);
  /// Evaluates cost, gradient, and rows unless they are empty, in one sweep.
  double evaluate(const Column<T>& x, std::span<double> rows, Column<T>& gradient);
  void rows_of(Part part, const Vectors<T>& v, std::span<double> out);
  void sum(Part part, const Vectors<T>& v, Column<T>& out);
  void set_seeds(std::span<const double> seeds);
  void count_failed_guards(const Column<T>& x);
  /// The last count.
  std::uint64_t failed_guards() const { return failed_guards_; }
  std::vector<std::uint32_t> failed_instances(std::size_t term, const Column<T>& x);

  std::vector<MemoryUse> memory() const;

 private:
  void rebuild(const Model& model, bool all);

  Bits bits_;
  std::unique_ptr<RowRunner> device_;
  BlockLayout layout_;
  std::uint64_t scalars_ = 0, rows_ = 0;
  std::vector<ParameterArray> arrays_;
  std::vector<std::uint8_t> constant_;
  Box box_;
  Pool pool_;
  SumRanges sums_;
  Workers<T> workers_;
  std::vector<std::shared_ptr<TermState<T>>> terms_;
  /// By topology and loss, including removed terms, whose instances may return.
  std::map<std::pair<const ir::Topology*, const ir::Program*>, std::shared_ptr<TermKernels<T>>>
      kernels_;
  Column<T> uniforms_;
  EngineStats stats_;
  std::uint64_t failed_guards_ = 0;
  std::uint64_t earlier_on_device_ = 0;  // of terms that are gone
};

}  // namespace topograd::runtime::cpu
