// Decides when a coarse space is made.
#include "coarse_control.hpp"

#include <utility>

namespace topograd::runtime {
namespace {

/// Iterations before the first search for aggregates.
constexpr std::uint64_t kLeastIterations = 32;

}  // namespace

void CoarseControl::begin_solve() {
  in_use_ = centred_ = false;
  fresh_ = true;
  builds_ = 0;
  products_ = iterations_ = 0;
  failure_.clear();
}

void CoarseControl::model_changed() {
  planning_ = {};
  planned_ = in_use_ = false;
  fresh_ = true;
  plan_ = {};
}

bool CoarseControl::due(const Model& model, const std::function<std::vector<double>()>& x) {
  if (asked_ == Preconditioner::block_jacobi) return false;
  const bool at_once = asked_ == Preconditioner::two_level && fresh_;
  if (!at_once && iterations_ < kLeastIterations) return false;
  if (!planned_) {
    // A model with bounds or manifolds has none, and its point need not be read.
    const bool possible = model.lower.empty() && !model.charts;
    centred_ = !planning_.valid();
    plan_ = centred_ ? plan_coarse_space(model, possible ? x() : std::vector<double>())
                     : planning_.get();
    planned_ = true;
    ++plans_;
    ++centres_;
  }
  if (known() && !centred_) {
    centre_coarse_space(model, x(), plan_);  // as in the first solve
    ++centres_;
  }
  centred_ = true;
  return known() && (at_once || iterations_ >= cost());
}

std::uint64_t CoarseControl::cost() const {
  const std::uint64_t n = plan_.unknowns();
  const bool counts = asked_ == Preconditioner::automatic && slow_inverse_ > 0;
  return plan_.products() + (counts ? n * n * n / slow_inverse_ : 0);
}

void CoarseControl::expect(const Model& model, int iterations) {
  if (asked_ == Preconditioner::block_jacobi || planned_ || planning_.valid()) return;
  if (iterations_ + static_cast<std::uint64_t>(iterations) < kLeastIterations) return;
  // The centres are not known yet.
  planning_ = std::async(std::launch::async, [&model] {
    return plan_coarse_space(model, std::vector<double>(model.scalars));
  });
}

void CoarseControl::settle() {
  if (planning_.valid()) planning_.wait();
}

void CoarseControl::built() {
  in_use_ = true;
  fresh_ = false;
  ++builds_;
  iterations_ = 0;
  products_ += plan_.products();
  failure_.clear();
}

void CoarseControl::failed(std::string why) {
  in_use_ = fresh_ = false;
  iterations_ = 0;
  products_ += plan_.products();
  failure_ = std::move(why);
}

PreconditionerUse CoarseControl::use() const {
  PreconditionerUse out{.builds = builds_, .products = products_};
  const std::string asked = asked_ == Preconditioner::automatic ? "" : "asked for";
  if (in_use_) {
    out.kind = Preconditioner::two_level;
    out.why = (asked.empty() ? "" : asked + "; ") + plan_.why + ", made " +
              std::to_string(builds_) + (builds_ == 1 ? " time" : " times") + " by " +
              std::to_string(plan_.products()) + " products each";
  } else if (!failure_.empty()) {
    out.why = failure_;
  } else if (planned_ && !known()) {
    out.why = "no coarse space: " + plan_.why;
  } else if (planned_) {
    out.why = "fewer iterations than the " + std::to_string(cost()) +
              " products that a coarse space takes" +
              (cost() > plan_.products() ? ", its inverse counted as such" : "");
  } else {
    out.why = asked.empty() ? "few iterations" : asked;
  }
  return out;
}

}  // namespace topograd::runtime
