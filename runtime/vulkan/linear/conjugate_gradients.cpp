// Start, iterations and end of conjugate gradients on the device.
#include "conjugate_gradients.hpp"

namespace topograd::runtime::vulkan {

using codegen::Scalar;
using codegen::StepTime;

std::uint32_t ConjugateGradients::sums(const SystemVectors& v) const {
  return v.block_groups + (by_.correction != nullptr ? by_.correction->sums() : 0);
}

void ConjugateGradients::record_start(CommandList& list) {
  const SystemVectors v = system_.vectors();
  const std::uint32_t sums = this->sums(v);
  system_.record_begin(list);
  list.barrier();
  record_by_blocks(list, ops_, v.blocks,
                   kernel::cg_init{{.gradient = v.gradient,
                                    .delta = v.step,
                                    .residual = v.residual,
                                    .direction = *v.directions[0],
                                    .preconditioned = v.preconditioned,
                                    .fixed_scalars = v.fixed,
                                    .partials = v.partials},
                                   {.out_stride = sums}},
                   {.unpreconditioned = !by_.by_blocks});
  if (by_.correction != nullptr) by_.correction->record_correction(list, false);
  list.barrier();
  ops_.record(
      list, kernel::cg_start{{.partials = v.partials}, {.sums_count = sums, .sums_stride = sums}});
}

void ConjugateGradients::record_iterations(CommandList& list, int count) {
  const SystemVectors v = system_.vectors();
  const std::uint32_t sums = this->sums(v);
  for (int k = 0; k < count; ++k) {
    list.barrier();
    const std::uint32_t curvatures = system_.record_product(
        list, {.preconditioned = by_.by_blocks ? v.preconditioned : v.residual,
               .before = *v.directions[k % 2],
               .now = *v.directions[1 - k % 2],
               .sums = sums});
    list.barrier();
    record_update(list, v, k, curvatures);
    if (by_.correction != nullptr) by_.correction->record_correction(list, true);
  }
  list.barrier();
  if (v.postpones_steps) {
    // The last step, if the solver stopped before the update that would have made it.
    ops_.record(
        list,
        kernel::axpby{{.x = *v.directions[1], .y = v.step},
                      {.count = v.unknowns, .x_factor = Scalar::pending, .y_factor = Scalar::one}});
    list.barrier();
  }
  ops_.record(
      list, kernel::cg_finish{{.partials = v.partials}, {.sums_count = sums, .sums_stride = sums}});
}

void ConjugateGradients::record_update(CommandList& list, const SystemVectors& v, int iteration,
                                       std::uint32_t curvatures) {
  const StepTime time = !v.postpones_steps   ? StepTime::now
                        : iteration % 2 == 0 ? StepTime::later
                                             : StepTime::both;
  record_by_blocks(
      list, ops_, v.blocks,
      kernel::cg_update{{.product = v.product,
                         .residual = v.residual,
                         .direction = *v.directions[1 - iteration % 2],
                         .direction_before = *v.directions[iteration % 2],
                         .delta = v.step,
                         .preconditioned = by_.by_blocks ? v.preconditioned : v.residual,
                         .fixed_scalars = v.fixed,
                         .partials = v.partials,
                         .curvature = v.curvature,
                         .decision = v.decision},
                        {.out_stride = sums(v), .sums_count = curvatures}},
      {.unpreconditioned = !by_.by_blocks, .step_time = time});
}

}  // namespace topograd::runtime::vulkan
