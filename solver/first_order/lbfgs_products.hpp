// L-BFGS from dot products of vectors on a device.
#pragma once

#include "../../runtime/engine/first_order.hpp"

#include <cstddef>
#include <deque>
#include <optional>
#include <span>
#include <vector>

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

}  // namespace topograd
