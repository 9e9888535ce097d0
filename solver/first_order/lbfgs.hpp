// L-BFGS: directions from the last few steps and changes of the gradient.
#pragma once

#include "../../runtime/engine/first_order.hpp"
#include "descent.hpp"
#include "row_model.hpp"

#include <cstdint>
#include <deque>
#include <functional>
#include <vector>

namespace topograd {

/// True if a pair describes curvature: sᵀy is positive relative to ‖s‖ ‖y‖.
bool has_curvature(double sy, double ss, double yy);

/// The two-loop recursion over the last `rank` pairs, scaled by sᵀy / yᵀy of the last one. Pairs
/// without positive curvature are left out. Where a row model has scales S, it starts from S times
/// sᵀy / yᵀS y in place of that number, so that units of unknowns do not matter.
///
/// Cost: 4 rank n multiply-adds per direction, 2 rank n numbers. Source: Nocedal & Wright,
/// Numerical Optimization, 2nd ed., algorithm 7.4 and eq. 7.20.
class LbfgsDirection final : public SearchDirection {
 public:
  ///   rows  null: no scales
  explicit LbfgsDirection(int rank, RowModel* rows = nullptr) : rank_(rank), rows_(rows) {}

  /// Dot products use only coordinates that are not held.
  void compute(std::span<const double> x, std::span<const double> g,
               std::span<const std::uint8_t> held, std::span<double> direction) override;
  bool has_model() const override { return !pairs_.empty(); }
  std::span<const double> scales() const override {
    return rows_ != nullptr ? rows_->scales() : std::span<const double>();
  }
  Settling settling() const override { return Settling::window; }
  void moved(double length, std::span<const double> step,
             std::span<const double> gradient_change) override;
  bool reset() override;
  void transfer(ir::StateRecord& record, std::size_t size) override;

 private:
  struct Pair {
    std::vector<double> s, y;
    double sy = 0;
  };
  /// direction = H direction, by the recursion.
  void recur(const std::deque<Pair>& pairs, std::span<double> direction) const;
  /// True if the pair describes curvature, in the norms in which the coordinates are alike.
  bool is_usable(const Pair& pair) const;

  int rank_;
  RowModel* rows_;
  std::deque<Pair> pairs_;  // oldest first
};

/// minimize_lbfgs() with checkpoints and scales; null: none.
bool minimize_lbfgs(const Objective& objective, std::span<double> x, const SolverOptions& options,
                    Summary& summary, const std::function<bool()>& leaves, Checkpoints* checkpoints,
                    RowModel* rows);

/// The same on an engine that keeps the vectors, from its point, which is x. Steps are the
/// same up to rounding: the recursion runs on dot products of the vectors (lbfgs_products.hpp). x
/// ends at the best point; after an exception it is the best one that is still known.
void minimize_lbfgs(runtime::DescentSteps& engine, std::span<double> x,
                    const SolverOptions& options, Summary& summary,
                    Checkpoints* checkpoints = nullptr);

}  // namespace topograd
