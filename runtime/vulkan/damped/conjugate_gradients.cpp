// Start, iterations and end of conjugate gradients on the device.
#include "conjugate_gradients.hpp"

#include "../recording/hazards.hpp"

#include <algorithm>

namespace topograd::runtime::vulkan {

using codegen::Scalar;
using codegen::StepTime;

bool ConjugateGradients::alternates() {
  // Several dispatches of one update share scalars, which one of them writes.
  return products_.can_fuse() &&
         std::ranges::count_if(v_.blocks, [](auto& range) { return range.count > 0; }) == 1;
}

void ConjugateGradients::need(Needs& needs, Preconditioning by) {
  const bool unpreconditioned = by == Preconditioning::none;
  v_.need_by_blocks<kernel::precondition>(needs);
  v_.need_by_blocks<kernel::cg_init>(needs, {.unpreconditioned = unpreconditioned});
  v_.ops->need<kernel::cg_start, kernel::cg_finish>(needs);
  if (by == Preconditioning::two_level) coarse_.need(needs);
  if (products_.can_fuse()) {
    for (const FusedProduct& product : products_.fused())
      product.use.set->need_fused(needs, product.fusion, product.fused_terms.get());
  } else {
    v_.ops->need<kernel::cg_direction>(needs);
    if (products_.matrix() == nullptr) {
      products_.need(needs, true);
      v_.ops->need<kernel::cg_curvature>(needs);
    }
  }
  const auto need_update = [&](StepTime time) {
    v_.need_by_blocks<kernel::cg_update>(needs,
                                         {.unpreconditioned = unpreconditioned, .step_time = time});
  };
  if (!alternates()) return need_update(StepTime::now);
  need_update(StepTime::later);
  need_update(StepTime::both);
  v_.ops->need<kernel::axpby>(needs);
}

void ConjugateGradients::record_start(CommandList& list, Preconditioning by) {
  const std::uint32_t groups = sum_groups(by);
  // Fused products write the directions of the owners that they sum.
  if (terms_.masked())
    list.fill(v_.next_direction, 0, problem_.model().scalars * context_.element_bytes(), 0);
  v_.record_by_blocks(list, v_.preconditioner());
  list.barrier();
  v_.record_by_blocks(list,
                      kernel::cg_init{{.gradient = v_.gradient,
                                       .delta = v_.step,
                                       .residual = v_.residual,
                                       .direction = v_.direction,
                                       .preconditioned = v_.preconditioned,
                                       .fixed_scalars = v_.not_free(),
                                       .partials = v_.partials},
                                      {.out_stride = groups}},
                      {.unpreconditioned = by == Preconditioning::none});
  if (by == Preconditioning::two_level) coarse_.record_correction(list, false);
  list.barrier();
  v_.ops->record(list, kernel::cg_start{{.partials = v_.partials},
                                        {.sums_count = groups, .sums_stride = groups}});
}

void ConjugateGradients::record_iterations(CommandList& list, int count, Preconditioning by) {
  const bool fused = products_.can_fuse(), alternates = this->alternates();
  const std::uint32_t groups = sum_groups(by);
  const Buffer& z = by == Preconditioning::none ? v_.residual : v_.preconditioned;
  for (int k = 0; k < count; ++k) {
    const Buffer& before = k % 2 == 0 ? v_.direction : v_.next_direction;
    const Buffer& now = k % 2 == 0 ? v_.next_direction : v_.direction;
    list.barrier();
    const std::uint32_t sums = fused ? record_fused_product(list, before, now, z, groups)
                                     : record_direction_and_product(list, z, groups);
    list.barrier();
    v_.record_by_blocks(list,
                        kernel::cg_update{{.product = v_.product,
                                           .residual = v_.residual,
                                           .direction = fused ? now : v_.direction,
                                           .direction_before = before,
                                           .delta = v_.step,
                                           .preconditioned = z,
                                           .fixed_scalars = v_.not_free(),
                                           .partials = v_.partials,
                                           .curvature = v_.curvature,
                                           .decision = v_.decision},
                                          {.out_stride = groups, .sums_count = sums}},
                        {.unpreconditioned = by == Preconditioning::none,
                         .step_time = !alternates  ? StepTime::now
                                      : k % 2 == 0 ? StepTime::later
                                                   : StepTime::both});
    if (by == Preconditioning::two_level) coarse_.record_correction(list, true);
  }
  if (alternates) record_pending_step(list);
  list.barrier();
  v_.ops->record(list, kernel::cg_finish{{.partials = v_.partials},
                                         {.sums_count = groups, .sums_stride = groups}});
}

/// Applies the last step if the solver stopped before the update that would have applied it.
void ConjugateGradients::record_pending_step(CommandList& list) {
  list.barrier();
  v_.ops->record(list, kernel::axpby{{.x = v_.next_direction, .y = v_.step},
                                     {.count = static_cast<std::uint32_t>(problem_.model().scalars),
                                      .x_factor = Scalar::pending,
                                      .y_factor = Scalar::one}});
}

std::uint32_t ConjugateGradients::record_direction_and_product(CommandList& list,
                                                               const Buffer& preconditioned,
                                                               std::uint32_t sums) {
  const auto n = static_cast<std::uint32_t>(problem_.model().scalars);
  v_.ops->record(list, kernel::cg_direction{{.preconditioned = preconditioned,
                                             .direction = v_.direction,
                                             .partials = v_.partials,
                                             .decision = v_.decision},
                                            {.count = n, .sums_count = sums, .sums_stride = sums}});
  list.barrier();
  if (DeviceMatrix* const matrix = products_.matrix())
    return matrix->record_product(list, *v_.ops,
                                  {.direction = v_.direction,
                                   .damping = v_.damping,
                                   .product = v_.product,
                                   .decision = v_.decision,
                                   .curvature = v_.curvature});
  Operands predicated = terms_.operands(v_.x, &moves_.record_expanded(list, v_.direction));
  predicated.scalars = &v_.decision;
  products_.record(list, predicated, v_.product);
  list.barrier();
  moves_.record_contracted(list, v_.product);
  return v_.ops->record(list, kernel::cg_curvature{{.direction = v_.direction,
                                                    .damping = v_.damping,
                                                    .product = v_.product,
                                                    .decision = v_.decision,
                                                    .curvature = v_.curvature},
                                                   {.count = n}});
}

std::uint32_t ConjugateGradients::record_fused_product(CommandList& list,
                                                       const Buffer& old_direction,
                                                       const Buffer& new_direction,
                                                       const Buffer& preconditioned,
                                                       std::uint32_t sums) {
  Operands with = terms_.operands(v_.x, &old_direction);
  with.scalars = &v_.ops->scalars();
  FusedOperands fused{.preconditioned = &preconditioned,
                      .damping = &v_.damping,
                      .next_direction = &new_direction,
                      .decision = &v_.decision,
                      .partials = &v_.partials,
                      .sums_count = sums,
                      .curvature = &v_.curvature};
  Hazards hazards(list);
  for (const auto& [use, fusion, fused_terms] : products_.fused()) {
    hazards.write(use.set->array());
    fused.fused_terms = fused_terms.get();
    fused.curvature_first += use.set->record_fused(
        list, fusion, with, fused,
        {.out = &v_.product, .first = use.set->x_first(), .overwrite = use.covers});
    ++context_.term_dispatches;
  }
  return fused.curvature_first;
}

}  // namespace topograd::runtime::vulkan
