// Steps through a Schur complement: when there is one, and what is recorded for it.
#include "vulkan_engine.hpp"

#include <algorithm>
#include <string>
#include <vector>

namespace topograd::runtime::vulkan {

EliminationUse VulkanEngine::eliminate(std::span<const std::uint8_t> scalars) {
  *schur_ = {};
  eliminated_.assign(scalars.begin(), scalars.end());
  if (scalars.empty()) return {};
  std::string why = make_schur();
  if (!schur_->device) eliminated_.clear();
  return {.possible = schur_->device != nullptr, .note = std::move(why)};
}

/// What it is, or why there is none.
std::string VulkanEngine::make_schur() {
  if (eliminated_.size() != problem_.model().scalars) return "the unknowns are others";
  if (moves_.shaped()) return "bounds and manifolds go without";
  std::vector<std::uint8_t> ordered = eliminated_;
  if (!problem_.order().identity()) {
    for (std::size_t k = 0; k < ordered.size(); ++k)
      ordered[problem_.order().position[k]] = eliminated_[k];
  }
  const auto start = std::chrono::steady_clock::now();
  SchurPlan plan = plan_schur(problem_.model(), ordered, terms_.slot_groups());
  if (plan.possible()) plan.why = DeviceSchur::obstacle(context_, plan, terms_.all());
  if (!plan.possible()) return plan.why;
  std::string text = std::to_string(plan.eliminated.size()) + " blocks eliminated, " +
                     std::to_string(plan.unknowns()) + " unknowns remain";
  schur_->device = std::make_unique<DeviceSchur>(context_, *v_.ops, std::move(plan), terms_.all(),
                                                 v_.diagonal_positions);
  context_.plan_seconds +=
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return text;
}

SchurOperands VulkanEngine::schur_operands() const {
  return {.gradient = &v_.gradient,
          .blocks = &v_.packed,
          .scale = &v_.scale,
          .damping = &v_.damping,
          .fixed = &v_.fixed,
          .step = &v_.step,
          .residual = &v_.residual};
}

/// Lists, where blocks are eliminated. False: there are none.
bool VulkanEngine::prepare_schur_lists() {
  if (eliminated_.empty()) return false;
  if (!schur_->device) make_schur();  // the model has changed
  if (!schur_->device) return false;
  if (schur_->start.list) return true;
  DeviceSchur& device = *schur_->device;
  recorder_.collect([&](CommandList& list) {
    device.record_start(list, terms_.operands(v_.x), schur_operands());
    device.record_iterations(list, 2);
    device.record_finish(list, schur_operands());
  });
  recorder_.finish_kernels();
  schur_->start = recorder_.make_list("schur_start", [&](CommandList& l) {
    device.record_start(l, terms_.operands(v_.x), schur_operands());
  });
  schur_->iterations = recorder_.make_list(
      "schur_iterations", [&](CommandList& l) { device.record_iterations(l, kIterationsOfList); });
  schur_->finish = recorder_.make_list(
      "schur_finish", [&](CommandList& l) { device.record_finish(l, schur_operands()); });
  return true;
}

}  // namespace topograd::runtime::vulkan
