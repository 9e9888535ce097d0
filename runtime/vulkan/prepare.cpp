// Kernels of an evaluation or a step, made while something else runs.
#include "vulkan_engine.hpp"

namespace topograd::runtime::vulkan {

bool VulkanEngine::prepare(KernelKind kind) {
  return recorder_.advance((*preparations_)[kind], [&](CommandList& list) {
    // Hessians may be asked for without their negative part.
    if (kind == KernelKind::hessian) hessians_.load_projection();
    if (kind != KernelKind::vjp) return record_kind(list, kind);
    rows_.record_vjp(list);
  });
}

bool VulkanEngine::prepare_step() {
  begin_step();
  return recorder_.advance(*step_preparation_, [&](CommandList& list) { record_step(list); });
}

void VulkanEngine::record_step(CommandList& list) {
  record_scale(list, {});
  record_linearize(list);
  list.barrier();
  record_solve_start(list, true);
  record_iterations(list, 2, true);
  record_trial(list);
  record_rescaled(list);
  record_taking_kernels(list);
  if (!context_.collecting) return;  // what follows takes the place of the above, or is another's
  if (schur_->device) {
    schur_->device->record_start(list, terms_.operands(v_.x), schur_operands());
    schur_->device->record_iterations(list, 2);
    schur_->device->record_finish(list, schur_operands());
  }
  if (VulkanEngine* const narrow = narrow_.engine) {
    narrow->recorder_.collect([&](CommandList& conversions) {
      narrow->record_converted(conversions, VectorOp::narrow, v_.x, narrow->v_.x);
      conversions.barrier();
      record_narrow_step(conversions);
    });
  }
}

}  // namespace topograd::runtime::vulkan
