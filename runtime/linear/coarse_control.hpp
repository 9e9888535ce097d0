// When the coarse space of a two-level preconditioner is made.
#pragma once

#include "coarse_plan.hpp"
#include "preconditioner.hpp"

#include <cstdint>
#include <functional>
#include <future>
#include <string>
#include <vector>

namespace topograd::runtime {

/// Decides when a coarse space is made, and plans it once for a model, with centres of each solve.
///
/// It is made again once as many iterations were taken since as it took products to make, so that
/// at most half of all products are spent on it; where inverting its matrix takes long and nobody
/// asked for it, that counts as products, too. Depends on counts alone.
/// Source for `automatic`: the break-even rule for renting and buying (Karlin et al., Competitive
/// snoopy caching, Algorithmica 3, 1988).
class CoarseControl {
 public:
  ///   slow_inverse  multiply-adds of the inversion that take as long as a product with JᵀJ; 0: it
  ///                 takes no time to speak of
  explicit CoarseControl(Preconditioner asked = Preconditioner::block_jacobi,
                         std::uint64_t slow_inverse = 0)
      : asked_(asked), slow_inverse_(slow_inverse) {
    begin_solve();
  }

  /// Another solve begins.
  void begin_solve();
  /// Terms, instances or constant flags have changed.
  void model_changed();
  /// Whether to make it now, before a step. Plans it if it is to be made for the first time.
  ///
  ///   x  gives the current point, in the model's order
  bool due(const Model& model, const std::function<std::vector<double>()>& x);
  /// A solve under way has taken `iterations` so far: where that makes it likely that the next step
  /// is due, planning begins on another thread. To be followed by settle() before the model may
  /// change.
  void expect(const Model& model, int iterations);
  /// Waits for what expect() began.
  void settle();
  void built();
  /// It could not be made: block-Jacobi serves until it is due again.
  void failed(std::string why);
  void solved(int iterations) { iterations_ += static_cast<std::uint64_t>(iterations); }

  bool in_use() const { return in_use_; }
  const CoarsePlan& plan() const { return plan_; }
  /// Count the plans, and the centres that they were given; who keeps something made from one
  /// compares them.
  std::uint64_t plan_version() const { return plans_; }
  std::uint64_t centre_version() const { return centres_; }
  PreconditionerUse use() const;

 private:
  bool known() const { return planned_ && plan_.aggregates > 0; }
  /// What making it costs, in products.
  std::uint64_t cost() const;

  Preconditioner asked_;
  std::uint64_t slow_inverse_;
  CoarsePlan plan_;
  std::future<CoarsePlan> planning_;
  std::string failure_;
  std::uint64_t plans_ = 0, centres_ = 0, iterations_ = 0, products_ = 0;
  int builds_ = 0;
  bool planned_ = false, centred_ = false, in_use_ = false, fresh_ = true;
};

}  // namespace topograd::runtime
