// Lists that linearise and move, and reports of them.
#include "step_points.hpp"

#include <cmath>

namespace topograd::runtime::vulkan {

using codegen::Scalar;

void StepPoints::record_linearization(CommandList& list) {
  sums_.record(list, Pass::gradient, terms_.operands(v_.x), v_.gradient);
  products_.record_matrix(list);
  terms_.record_cost(list, v_.x, Scalar::cost);
  moves_.record_tangents(list);
  moves_.record_norms(list);
  moves_.record_scaled_norms(list);
}

void StepPoints::record_matrix(CommandList& list) {
  products_.record_matrix(list);
  moves_.record_tangents(list);
}

void StepPoints::record_linearize(CommandList& list) {
  record_linearization(list);
  list.barrier();
  v_.ops->record_read(list);
}

void StepPoints::record_trial(CommandList& list, Scalar length) {
  list.barrier();
  moves_.record(list, length);
  terms_.record_cost(list, v_.trial, Scalar::trial_cost);
  v_.ops->record_read(list);
}

void StepPoints::prepare() {
  if (!linearize_->list)
    *linearize_ = recorder_.make_list("linearize", [&](CommandList& l) { record_linearize(l); });
  if (trials_->full.list) return;
  trials_->full =
      recorder_.make_list("trial", [&](CommandList& l) { record_trial(l, Scalar::one); });
  trials_->rescaled =
      recorder_.make_list("rescaled_trial", [&](CommandList& l) { record_trial(l, Scalar::user); });
}

PointReport StepPoints::report(const Scalars& values) const {
  const auto at = [&](Scalar s) { return values[codegen::slot(s)]; };
  return {.cost = at(Scalar::cost),
          .gradient_max_norm = at(Scalar::gradient_max),
          .gradient_norm = std::sqrt(at(Scalar::gradient_squared)),
          .x_norm = std::sqrt(at(Scalar::x_squared)),
          .scaled_gradient_max = at(Scalar::scaled_gradient_max),
          .scaled_gradient_norm = std::sqrt(at(Scalar::scaled_gradient_squared)),
          .scaled_x_norm = std::sqrt(at(Scalar::scaled_x_squared)),
          .scaled_step_norm = moved_length_ * std::sqrt(at(Scalar::scaled_step_squared))};
}

}  // namespace topograd::runtime::vulkan
