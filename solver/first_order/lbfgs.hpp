// L-BFGS: directions from the last few steps and changes of the gradient, on the host or a device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "../../runtime/engine/first_order.hpp"
#include "descent.hpp"

namespace topograd::ir {
class StateRecord;
}

namespace topograd {

/// The two-loop recursion on factors: every vector in it is a sum of the gradient g and the vectors
/// s_k, y_k of pairs, and it needs only their dot products. So a direction takes two passes over
/// the vectors instead of 2 rank + 1 dependent ones.
///
/// Steps equal those of LbfgsDirection up to rounding. Cost: O(rank²) per direction and step.
/// Source: Chen, Wang & Zhou, Large-scale L-BFGS using MapReduce (2014).
class LbfgsProducts {
 public:
  explicit LbfgsProducts(int rank);

  bool empty() const { return order_.empty(); }
  /// Factors of g, s_0, y_0, s_1, ... in the direction. Valid until the next call.
  std::span<const double> factors();
  /// The slope at a trial along the direction.
  double slope(const runtime::DescentReport& trial) const;
  /// Records that the trial of that length is accepted. Returns the index of the pair that it
  /// becomes, if it describes curvature.
  std::optional<std::size_t> moved(double length, const runtime::DescentReport& trial);
  /// Forgets the pairs. Returns false if there are none.
  bool reset();
  void transfer(ir::StateRecord& record);

 private:
  std::size_t vectors() const { return 2 * rank_; }
  double& product(std::size_t a, std::size_t b) { return products_[a * vectors() + b]; }
  void set(std::size_t a, std::size_t b, double value) { product(a, b) = product(b, a) = value; }
  /// v · (the sum with the present factors).
  double times_direction(std::size_t v);
  std::size_t free_pair();

  std::size_t rank_;
  std::deque<std::size_t> order_;  // pairs, oldest first
  std::vector<double> products_;   // of s_0, y_0, ... with each other
  std::vector<double> gradient_;   // of them with g
  std::vector<double> factors_, alpha_;
};

/// True if a pair describes curvature: sᵀy is positive relative to ‖s‖ ‖y‖.
bool has_curvature(double sy, double ss, double yy);

/// The two-loop recursion over the last `rank` pairs, scaled by sᵀy / yᵀy of the last one. Pairs
/// without positive curvature are left out. Where there are scales S, it starts from S times
/// sᵀy / yᵀS y in place of that number, so that units of unknowns do not matter.
///
/// Cost: 4 rank n multiply-adds per direction, 2 rank n numbers. Source: Nocedal & Wright,
/// Numerical Optimization, 2nd ed., algorithm 7.4 and eq. 7.20.
class LbfgsDirection final : public SearchDirection {
 public:
  ///   units  null: no scales
  explicit LbfgsDirection(int rank, UnknownScales* units = nullptr) : rank_(rank), units_(units) {}

  /// Dot products use only coordinates that are not held.
  void compute(std::span<const double> x, std::span<const double> g,
               std::span<const std::uint8_t> held, std::span<double> direction) override;
  bool has_model() const override { return !pairs_.empty(); }
  std::span<const double> scales() const override {
    return units_ != nullptr ? units_->scales() : std::span<const double>();
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
  UnknownScales* units_;
  std::deque<Pair> pairs_;  // oldest first
};

/// minimize_lbfgs() with checkpoints and scales; null: none.
bool minimize_lbfgs(const Objective& objective, std::span<double> x, const SolverOptions& options,
                    Summary& summary, const std::function<bool()>& leaves, Checkpoints* checkpoints,
                    UnknownScales* units);

/// The same on an engine that keeps the vectors, from its point, which is x. Steps are the
/// same up to rounding: the recursion runs on dot products of the vectors (LbfgsProducts). x
/// ends at the best point; after an exception it is the best one that is still known.
void minimize_lbfgs(runtime::DescentSteps& engine, std::span<double> x,
                    const SolverOptions& options, Summary& summary,
                    Checkpoints* checkpoints = nullptr);

}  // namespace topograd
