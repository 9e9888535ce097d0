// Symmetric factorisation on the CPU by fronts, of sparse matrices and of a dense one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "../../factor/factor_plan.hpp"
#include "../../factor/refinement.hpp"
#include "../tiles/pool.hpp"
#include "front_kernels.hpp"

namespace topograd::runtime::cpu {

/// LLᵀ of a symmetric positive definite matrix in the plan's order, or L S Lᵀ of an indefinite one,
/// S being the signs of its pivots. The same bits for any number of threads.
///
/// Pivots are taken as they come. For positive definite matrices that is backward stable (Higham,
/// Accuracy and Stability of Numerical Algorithms, 2nd ed., theorem 10.3); others are refused at
/// the first pivot that the PivotRule does not admit, which says what it admits and how exact that
/// is. Positive definite matrices have the same bits whatever it admits.
class SparseFactor {
 public:
  ///   threads  0 = all
  SparseFactor(FactorPlan plan, int threads, const FrontKernels& kernels = front_kernels());

  const FactorPlan& plan() const { return plan_; }

  /// Bytes of the factor and its workspaces from the first factor() on: a fact of the plan.
  std::uint64_t bytes() const;

  ///   values  of the lower triangle that was planned for
  FactorReport factor(std::span<const double> values, const PivotRule& rule = {});

  /// Solves for one right side, after factor() was complete.
  void solve(std::span<const double> right, std::span<double> solution) const;

  /// The least size of a pivot, which is the square of a diagonal entry of L, apart from pivots
  /// that vanished; infinite for an empty matrix.
  double least_pivot() const;

  /// The panel of a front, tiled as in Front, as FrontKernels has it.
  const double* panel(std::uint32_t front) const {
    return factor_.data() + plan_.fronts[front].panel;
  }
  Pool& pool() const { return pool_; }

 private:
  void eliminate(std::uint32_t f, std::span<const double> values, const PivotRule& rule);
  void assemble(const Front& front, std::span<const double> values, const PivotRule& rule);
  bool factor_pivots(std::uint32_t f, const Front& front);
  void update(std::uint32_t f, const Front& front);
  const double* signs_of(std::uint32_t f) const;
  std::span<const std::uint32_t> parent_rows(const Front& front) const;

  FactorPlan plan_;
  mutable Pool pool_;
  const FrontKernels& kernels_;
  std::vector<double> factor_, workspace_;
  std::vector<double>
      limits_;  // by position: the size up to which the pivot vanishes; empty: none does
  std::vector<double> signs_;  // of pivots, by position; empty: negative ones are refused
  mutable std::vector<double> right_;
  std::vector<FactorReport> failed_;  // by front; those that did not fail count their pivots
  std::vector<char> skipped_;         // by front: it or one below it failed
};

/// LLᵀ of a dense positive definite matrix. The same bits for any number of threads, and on every
/// processor with portable kernels.
class DenseFactor {
 public:
  explicit DenseFactor(const FrontKernels& kernels = front_kernels()) : kernels_(kernels) {}

  /// Returns false if a pivot is not positive, or not finite.
  ///
  ///   lower  n × n numbers by column; those above the diagonal are not read
  bool factor(Pool& pool, std::span<const double> lower, std::uint32_t n);
  /// After factor() has returned true. The solution lives until the next one.
  std::span<const double> solve(std::span<const double> right);

  std::uint64_t bytes() const { return sizeof(double) * panel_.size(); }

 private:
  const FrontKernels& kernels_;
  std::uint32_t n_ = 0;
  std::vector<double> panel_, solution_;  // the solution is padded to tiles
};

/// Calls front(f) for all fronts, children before their parents.
template <class F>
void upward(const FactorPlan& plan, Pool& pool, const F& front) {
  pool.for_ranges(plan.tasks.size(), 1, [&](std::size_t t, std::size_t) {
    for (std::uint32_t f = plan.tasks[t].begin; f < plan.tasks[t].end; ++f) front(f);
  });
  for (std::size_t l = 0; l + 1 < plan.level_starts.size(); ++l) {
    const std::uint32_t first = plan.level_starts[l];
    pool.for_ranges(plan.level_starts[l + 1] - first, 1,
                    [&](std::size_t k, std::size_t) { front(plan.level_fronts[first + k]); });
  }
}

/// Calls front(f) for all fronts, parents before their children.
template <class F>
void downward(const FactorPlan& plan, Pool& pool, const F& front) {
  for (std::size_t l = plan.level_starts.size() - 1; l-- > 0;) {
    const std::uint32_t first = plan.level_starts[l];
    pool.for_ranges(plan.level_starts[l + 1] - first, 1,
                    [&](std::size_t k, std::size_t) { front(plan.level_fronts[first + k]); });
  }
  pool.for_ranges(plan.tasks.size(), 1, [&](std::size_t t, std::size_t) {
    for (std::uint32_t f = plan.tasks[t].end; f-- > plan.tasks[t].begin;) front(f);
  });
}

}  // namespace topograd::runtime::cpu
