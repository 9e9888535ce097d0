// Decision when to make the coarse space of a two-level preconditioner.
#pragma once

#include "../../ir/machine/state_record.hpp"
#include "coarse_plan.hpp"
#include "preconditioner.hpp"

#include <cstdint>
#include <functional>
#include <future>
#include <optional>
#include <vector>

namespace topograd::runtime {

/// Decides when a coarse space is made, plans it once for a model, and centres it in each solve.
///
/// It is made again after as many iterations as its construction took products, so that at most
/// half of all products are spent on it. For `automatic`, a slow inversion of its matrix counts as
/// products too. Depends on counts alone.
/// Source for `automatic`: the break-even rule for renting and buying (Karlin et al., Competitive
/// snoopy caching, Algorithmica 3, 1988).
class CoarseControl {
 public:
  ///   slow_inverse  multiply-adds of the inversion that take as long as a product with JᵀJ; 0: the
  ///                 inversion costs nothing
  explicit CoarseControl(Preconditioner asked = Preconditioner::block_jacobi,
                         std::uint64_t slow_inverse = 0)
      : asked_(asked), slow_inverse_(slow_inverse) {
    begin_solve();
  }

  /// Marks the start of another solve.
  void begin_solve();
  /// Call after terms, instances or fixed flags have changed.
  void model_changed();
  /// True if the coarse space should be made now, before a step. Plans it on first use.
  ///
  ///   x  gives the current point, in the model's order
  bool due(const Model& model, const std::function<std::vector<double>()>& x);
  /// Reports the iterations so far of a running solve. If the next step is then likely to need the
  /// coarse space, planning starts on another thread; call settle() before the model may change.
  void expect(const Model& model, int iterations);
  /// Waits for the work that expect() started.
  void settle();
  void built();
  /// Reports that it could not be made: block-Jacobi is used until it is due again.
  void failed(PreconditionerReason why);
  /// Saves or restores counts and decisions; a restored control has planned the coarse space again,
  /// with its centres.
  void transfer(ir::StateRecord& record, const Model& model);
  void solved(int iterations) { iterations_ += static_cast<std::uint64_t>(iterations); }

  bool in_use() const { return in_use_; }
  const CoarsePlan& plan() const { return plan_; }
  /// Versions of the plan and of its centres, to compare with those of derived data.
  std::uint64_t plan_version() const { return plans_; }
  std::uint64_t centre_version() const { return centres_; }
  PreconditionerUse use() const;

 private:
  /// A model with bounds or manifolds has none, and its point need not be read.
  static bool possible(const Model& model) { return model.lower.empty() && !model.manifolds; }
  bool known() const { return planned_ && plan_.aggregates > 0; }
  /// Cost of making it, in products with JᵀJ.
  std::uint64_t cost() const;

  Preconditioner asked_;
  std::uint64_t slow_inverse_;
  CoarsePlan plan_;
  std::future<CoarsePlan> planning_;
  std::optional<PreconditionerReason> failure_;
  std::uint64_t plans_ = 0, centres_ = 0, iterations_ = 0, products_ = 0;
  int builds_ = 0;
  bool planned_ = false, centred_ = false, in_use_ = false, fresh_ = true;
};

}  // namespace topograd::runtime
