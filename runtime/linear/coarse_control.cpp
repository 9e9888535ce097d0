// Decides when a coarse space is made.
#include "coarse_control.hpp"

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
  failure_.reset();
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
    centred_ = !planning_.valid();
    plan_ = centred_ ? plan_coarse_space(model, possible(model) ? x() : std::vector<double>())
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

void CoarseControl::transfer(ir::StateRecord& record, const Model& model) {
  record.value("coarse space planned", planned_);
  if (record.restores() && planned_) {
    // The centres are those of the record.
    plan_ = plan_coarse_space(model, std::vector<double>(possible(model) ? model.scalars : 0));
    ++plans_;
    ++centres_;
  }
  record.value("coarse space centred", centred_);
  record.value("coarse space in use", in_use_);
  record.value("coarse space fresh", fresh_);
  record.in_range("coarse spaces made", builds_, 0);
  record.value("iterations since the coarse space", iterations_);
  record.value("products for coarse spaces", products_);
  bool failed = failure_.has_value();
  PreconditionerReason failure = failure_.value_or(PreconditionerReason{});
  record.value("coarse space failed", failed);
  record.value("why the coarse space failed", failure, kLastPreconditionerReason);
  failure_ = failed ? std::optional(failure) : std::nullopt;
  if (in_use_ && !known()) record.refuse("coarse space in use", "is of a space that is not there");
  if (!known()) return;
  record.list("coarse offsets", std::span(plan_.offsets));
  record.list("coarse spread", std::span(plan_.spread));
  record.list("coarse gather", std::span(plan_.gather));
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
  failure_.reset();
}

void CoarseControl::failed(PreconditionerReason why) {
  in_use_ = fresh_ = false;
  iterations_ = 0;
  products_ += plan_.products();
  failure_ = why;
}

PreconditionerUse CoarseControl::use() const {
  using Reason = PreconditionerReason;
  PreconditionerUse out{.builds = builds_, .products = products_};
  const bool automatic = asked_ == Preconditioner::automatic;
  if (in_use_) {
    out.kind = Preconditioner::two_level;
    out.asked_for = !automatic;
    out.why = plan_.why;
    out.why.numbers[4] = builds_;
    out.why.numbers[5] = plan_.products();
  } else if (failure_) {
    out.why = {*failure_};
  } else if (planned_ && !known()) {
    out.why = plan_.why;
  } else if (planned_) {
    const bool inverse_counts = cost() > plan_.products();
    out.why =
        because(inverse_counts ? Reason::cheaper_than_inverse : Reason::cheaper_iterations, cost());
  } else {
    out.why = {automatic ? Reason::few_iterations : Reason::asked_for};
  }
  return out;
}

}  // namespace topograd::runtime
