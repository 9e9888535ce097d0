// Sparse Cholesky factorisation on the CPU, by fronts.
#pragma once

#include "../../factor/factor_plan.hpp"
#include "../../factor/factor_report.hpp"
#include "../tiles/pool.hpp"
#include "front_kernels.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace topograd::runtime::cpu {

/// LLᵀ of a symmetric positive definite matrix in the plan's order. The same bits for any number of
/// threads.
///
/// Pivots are taken as they come. For positive definite matrices that is backward stable (Higham,
/// Accuracy and Stability of Numerical Algorithms, 2nd ed., theorem 10.3); others are refused at
/// the first pivot that is not positive, unless it vanishes by the PivotRule. LDLᵀ would accept
/// negative ones, but its error then has no bound.
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

  /// The least square of a diagonal entry of L, apart from pivots that vanished; infinite for an
  /// empty matrix.
  double least_pivot() const;

  /// The panel of a front, tiled as in Front, with the reciprocals of the diagonal in its place.
  const double* panel(std::uint32_t front) const {
    return factor_.data() + plan_.fronts[front].panel;
  }
  Pool& pool() const { return pool_; }

 private:
  void eliminate(std::uint32_t f, std::span<const double> values, const PivotRule& rule);
  void assemble(const Front& front, std::span<const double> values, const PivotRule& rule);
  bool factor_pivots(std::uint32_t f, const Front& front);
  void update(const Front& front);
  std::span<const std::uint32_t> places(const Front& front) const;

  FactorPlan plan_;
  mutable Pool pool_;
  const FrontKernels& kernels_;
  std::vector<double> factor_, workspace_;
  std::vector<double>
      limits_;  // by place: the size up to which the pivot vanishes; empty: none does
  mutable std::vector<double> right_;
  std::vector<FactorReport> failed_;  // by front
  std::vector<char> skipped_;         // by front: it or one below it failed
};

}  // namespace topograd::runtime::cpu
