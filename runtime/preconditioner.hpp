// Preconditioners of conjugate gradients by name, and when the dearer one is made.
#pragma once

#include <topograd/runtime/coarse_plan.hpp>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace topograd::runtime {

/// What conjugate gradients are preconditioned with. `block_jacobi`: D⁻¹, inverses of the damped
/// diagonal blocks. `two_level`: D⁻¹ + P (Pᵀ A P)⁻¹ Pᵀ with the smooth vectors P of a CoarsePlan.
/// `automatic`: the first until iterations have cost what the other takes to make, then the other.
enum class Preconditioner { automatic, block_jacobi, two_level };

/// What an engine did.
struct PreconditionerUse {
  Preconditioner kind = Preconditioner::block_jacobi;  ///< the last one in use
  std::string why;                                     ///< one line
  int builds = 0;                                      ///< of coarse matrices in this solve
  std::uint64_t products = 0;                          ///< with JᵀJ, for them
};

/// Decides when a coarse space is made, and plans it once for a model, with centres of each solve.
///
/// It is made again once as many iterations were taken since as it took products to make, so that
/// at most half of all products are spent on it. Depends on counts alone.
/// Source for `automatic`: the break-even rule for renting and buying (Karlin et al., Competitive
/// snoopy caching, Algorithmica 3, 1988).
class CoarseControl {
 public:
  explicit CoarseControl(Preconditioner asked = Preconditioner::block_jacobi) : asked_(asked) {
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

  Preconditioner asked_;
  CoarsePlan plan_;
  std::string failure_;
  std::uint64_t plans_ = 0, centres_ = 0, iterations_ = 0, products_ = 0;
  int builds_ = 0;
  bool planned_ = false, centred_ = false, in_use_ = false, fresh_ = true;
};

}  // namespace topograd::runtime
