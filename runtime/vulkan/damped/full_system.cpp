// Products of an iteration of conjugate gradients with the damped normal equations.
#include "full_system.hpp"

#include "../recording/hazards.hpp"

namespace topograd::runtime::vulkan {

SystemVectors FullSystem::vectors() {
  const bool fused = products_.can_fuse();
  return {.gradient = v_.gradient,
          .step = v_.step,
          .residual = v_.residual,
          .product = v_.product,
          .preconditioned = v_.preconditioned,
          .directions = {&v_.direction, fused ? &v_.next_direction : &v_.direction},
          .fixed = v_.not_free(),
          .partials = v_.partials,
          .curvature = v_.curvature,
          .decision = v_.decision,
          .blocks = v_.diagonal_blocks(),
          .unknowns = static_cast<std::uint32_t>(problem_.model().scalars),
          .block_groups = v_.block_groups(),
          .postpones_steps = fused && v_.blocks.size() == 1};
}

void FullSystem::record_begin(CommandList& list) {
  // Fused products write the directions of the owners that they sum.
  if (terms_.masked())
    list.fill(v_.next_direction, 0, problem_.model().scalars * context_.element_bytes(), 0);
  v_.record_by_blocks(list, v_.preconditioner());
}

std::uint32_t FullSystem::record_product(CommandList& list, const Direction& direction) {
  if (products_.can_fuse()) return record_fused(list, direction);
  const auto n = static_cast<std::uint32_t>(problem_.model().scalars);
  v_.ops->record(list,
                 kernel::cg_direction{
                     {.preconditioned = direction.preconditioned,
                      .direction = direction.now,
                      .partials = v_.partials,
                      .decision = v_.decision},
                     {.count = n, .sums_count = direction.sums, .sums_stride = direction.sums}});
  list.barrier();
  if (DeviceMatrix* const matrix = products_.matrix())
    return matrix->record_product(list, *v_.ops,
                                  {.direction = direction.now,
                                   .damping = v_.damping,
                                   .product = v_.product,
                                   .decision = v_.decision,
                                   .curvature = v_.curvature});
  Operands predicated = terms_.operands(v_.x, &moves_.record_expanded(list, direction.now));
  predicated.scalars = &v_.decision;
  products_.record(list, predicated, v_.product);
  list.barrier();
  moves_.record_contracted(list, v_.product);
  return v_.ops->record(list, kernel::cg_curvature{{.direction = direction.now,
                                                    .damping = v_.damping,
                                                    .product = v_.product,
                                                    .decision = v_.decision,
                                                    .curvature = v_.curvature},
                                                   {.count = n}});
}

std::uint32_t FullSystem::record_fused(CommandList& list, const Direction& direction) {
  Operands with = terms_.operands(v_.x, &direction.before);
  with.scalars = &v_.ops->scalars();
  FusedOperands fused{.preconditioned = &direction.preconditioned,
                      .damping = &v_.damping,
                      .next_direction = &direction.now,
                      .decision = &v_.decision,
                      .partials = &v_.partials,
                      .sums_count = direction.sums,
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
