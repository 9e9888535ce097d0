// L-BFGS: directions from the last few steps and changes of the gradient.
#pragma once

#include <topograd/solver/first_order/descent.hpp>

#include <deque>
#include <vector>

namespace topograd {

/// The two-loop recursion over the last `rank` pairs, scaled by sᵀy / yᵀy of the last one. Pairs
/// without positive curvature are left out.
///
/// Cost: 4 rank n multiply-adds a direction, 2 rank n numbers. Source: Nocedal & Wright, Numerical
/// Optimization, 2nd ed., algorithm 7.4 and eq. 7.20.
class LbfgsDirection final : public SearchDirection {
 public:
  explicit LbfgsDirection(int rank) : rank_(rank) {}

  void compute(std::span<const double> x, std::span<const double> g,
               std::span<double> direction) override;
  /// 1, and min(1, 1 / max |g|) along the gradient.
  double first_step(std::span<const double> g) const override;
  void moved(double length, std::span<const double> step,
             std::span<const double> gradient_change) override;
  bool reset() override;

 private:
  struct Pair {
    std::vector<double> s, y;
    double sy = 0, yy = 0;
  };

  int rank_;
  std::deque<Pair> pairs_;  // oldest first
};

/// Minimises a function of which value and gradient are known, from x (descend()).
///
///   options  max_lbfgs_rank, line_search, tolerances and bounds, callback are read
void minimize_lbfgs(const Objective& objective, std::span<double> x, const SolverOptions& options,
                    Summary& summary);

}  // namespace topograd
