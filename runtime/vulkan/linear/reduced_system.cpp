// Start and iterations of conjugate gradients on a Schur complement.
#include "reduced_system.hpp"

#include <algorithm>
#include <bit>
#include <vector>

namespace topograd::runtime::vulkan {

std::uint32_t lanes_of_rows(const Context& context, std::uint64_t entries, std::uint64_t rows) {
  constexpr std::uint64_t kEntriesOfLane = 8;  // that an invocation adds up, about
  if (context.device->info().software() || rows == 0) return 1;
  const std::uint64_t wanted = std::bit_ceil(entries / rows / kEntriesOfLane + 1);
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(wanted, context.workgroup_size));
}

ReducedSystem::ReducedSystem(Context& context, VectorOps& vectors, const SchurPlan& plan)
    : context_(context), vectors_(vectors), plan_(plan) {
  const std::uint32_t n = plan.unknowns();
  lanes_ = lanes_of_rows(context, plan.values, n);
  const auto words = [&](const std::vector<std::uint32_t>& list) {
    return make_buffer(context, list, "schur_words");
  };
  const auto numbers = [&](std::uint64_t count) {
    return make_numbers(context, count, "schur_numbers");
  };
  std::vector<std::uint32_t> places;
  for (const SchurPlan::Blocks& range : plan.kept_widths) {
    for (std::uint32_t b = 0; b < range.count; ++b)
      places.insert(places.end(), {range.position + b * range.width,
                                   range.inverse + b * range.width * (range.width + 1) / 2});
  }
  places_ = words(places);
  rows_ = words(plan.rows);
  columns_ = words(plan.columns);
  input_ = {numbers(plan.values), numbers(plan.packed), numbers(n)};
  inverse_blocks_ = numbers(plan.packed);
  no_damping_ = make_buffer(context, std::vector<double>(n), "schur_numbers");
  none_fixed_ = words(std::vector<std::uint32_t>(n));
  for (Buffer* vector :
       {&step_, &residual_, &product_, &preconditioned_, &directions_[0], &directions_[1]}) {
    *vector = numbers(n);
  }
  partials_ = make_partials(context, 2ull * block_groups());
  curvature_ = make_partials(context, row_groups());
  decision_ = make_partials(context, codegen::kScalarCount);
}

std::uint32_t ReducedSystem::block_groups() const {
  std::uint32_t groups = 0;
  for (const SchurPlan::Blocks& range : plan_.kept_widths)
    groups += context_.update_grid(range.count);
  return groups;
}

std::uint32_t ReducedSystem::row_groups() const {
  return context_.product_grid(std::uint64_t{plan_.unknowns()} * lanes_);
}

void ReducedSystem::need(Needs& needs) const {
  vectors_.need<kernel::cg_start, kernel::cg_finish>(needs);
  vectors_.need<kernel::schur_product>(needs, {.width = lanes_});
  for (const SchurPlan::Blocks& range : plan_.kept_widths) {
    const bool decides = &range == &plan_.kept_widths.front();
    vectors_.need<kernel::schur_invert, kernel::cg_init>(needs, {.width = range.width});
    vectors_.need<kernel::cg_update>(needs, {.width = range.width, .decides = decides});
  }
}

template <class Kernel>
std::uint32_t ReducedSystem::record_by_blocks(CommandList& list, Kernel kernel) {
  constexpr bool kInverts = Kernel::kOp == codegen::VectorOp::schur_invert;
  constexpr bool kUpdates = Kernel::kOp == codegen::VectorOp::cg_update;
  std::uint32_t groups = 0;
  for (const SchurPlan::Blocks& range : plan_.kept_widths) {
    kernel.push.count = range.count;
    kernel.push.first = kInverts ? range.first : range.position;
    kernel.push.inverse_first = range.inverse;
    if constexpr (requires { kernel.push.out_first; }) kernel.push.out_first = groups;
    groups +=
        vectors_.record(list, kernel, {.width = range.width, .decides = !kUpdates || groups == 0});
  }
  return groups;
}

void ReducedSystem::record_start(CommandList& list) {
  list.barrier();
  record_by_blocks(list, kernel::schur_invert{{.blocks = input_.packed_blocks,
                                               .damping = no_damping_,
                                               .inverse_blocks = inverse_blocks_,
                                               .places = places_,
                                               .fixed_scalars = none_fixed_},
                                              {}});
  list.barrier();
  const std::uint32_t groups = block_groups();
  record_by_blocks(list, kernel::cg_init{{.gradient = input_.gradient,
                                          .inverse_blocks = inverse_blocks_,
                                          .delta = step_,
                                          .residual = residual_,
                                          .direction = directions_[0],
                                          .preconditioned = preconditioned_,
                                          .fixed_scalars = none_fixed_,
                                          .partials = partials_},
                                         {.out_stride = groups}});
  list.barrier();
  vectors_.record(list, kernel::cg_start{{.partials = partials_},
                                         {.sums_count = groups, .sums_stride = groups}});
}

void ReducedSystem::record_iterations(CommandList& list, int count) {
  const std::uint32_t groups = block_groups();
  for (int k = 0; k < count; ++k) {
    const Buffer& next_direction = directions_[1 - k % 2];
    list.barrier();
    const std::uint32_t sums = vectors_.record(
        list,
        kernel::schur_product{
            {.complement = input_.complement,
             .preconditioned = preconditioned_,
             .direction = directions_[k % 2],
             .next_direction = next_direction,
             .product = product_,
             .row_words = rows_,
             .column_numbers = columns_,
             .partials = partials_,
             .curvature = curvature_,
             .decision = decision_},
            {.count = plan_.unknowns(), .sums_count = groups, .sums_stride = groups}},
        {.width = lanes_, .groups = row_groups()});
    list.barrier();
    record_by_blocks(list, kernel::cg_update{{.product = product_,
                                              .residual = residual_,
                                              .direction = next_direction,
                                              .delta = step_,
                                              .inverse_blocks = inverse_blocks_,
                                              .preconditioned = preconditioned_,
                                              .fixed_scalars = none_fixed_,
                                              .partials = partials_,
                                              .curvature = curvature_,
                                              .decision = decision_},
                                             {.out_stride = groups, .sums_count = sums}});
  }
  list.barrier();
  vectors_.record(list, kernel::cg_finish{{.partials = partials_},
                                          {.sums_count = groups, .sums_stride = groups}});
}

}  // namespace topograd::runtime::vulkan
