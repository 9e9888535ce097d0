// Steps on manifolds: conjugate gradients run in tangent coordinates, kernels of residuals in those
// of x.
#include "vulkan_engine.hpp"

#include <algorithm>

namespace topograd::runtime::vulkan {

using codegen::BufferRole;

void VulkanEngine::make_charts() {
  charts_ = nullptr;
  for (Buffer* buffer : {&ambient_, &chart_held_}) *buffer = Buffer();
  if (!charted()) return;
  std::vector<std::uint32_t> held(model_.constant.begin(), model_.constant.end());
  held.resize(model_.scalars, 0);
  for (const Chart& chart : model_.charts->all) {
    for (const std::uint32_t first : chart.blocks) {
      for (std::uint32_t k = chart.tangent; k < chart.width; ++k) held[first + k] = 1;
    }
  }
  chart_held_ = make_buffer(context_, held, "chart_held");
  held_ = make_buffer(context_, held, "held");
  ambient_ = make_numbers(context_, model_.scalars, "ambient_direction");
  const auto packed_start = [this](std::uint32_t first) {
    const auto after = std::ranges::upper_bound(array_blocks_, first, {}, &BlockRange::x_first);
    const BlockRange& range = *std::prev(after);
    const std::uint32_t packed = range.width * (range.width + 1) / 2;
    return range.blocks_first + (first - range.x_first) / range.width * packed;
  };
  charts_ = std::make_unique<DeviceCharts>(context_, *vectors_, *model_.charts, packed_start,
                                           packed_blocks_);
}

void VulkanEngine::record_tangents(CommandList& list) {
  if (!charted()) return;
  charts_->record_bases(list, x_);
  list.barrier();
  charts_->record_contract(list, gradient_);
  charts_->record_contract_packed(list, packed_);
  list.barrier();
}

void VulkanEngine::record_gradient_moves(CommandList& list) {
  const auto n = static_cast<std::uint32_t>(model_.scalars);
  BindingTable table;
  table.set(BufferRole::fixed, fixed_);
  table.set(BufferRole::result, gradient_);
  vectors_->record(list, {.op = VectorOp::mask, .constants = {.count = n}}, table);
  list.barrier();
  table.set(BufferRole::first_operand, gradient_);
  table.set(BufferRole::result, result_);
  vectors_->record(list, {.op = VectorOp::copy, .constants = {.count = n}}, table);
  table.set(BufferRole::second_operand, gradient_);
  table.set(BufferRole::result, product_);
  vectors_->record(
      list,
      {.op = VectorOp::combine, .constants = {.count = n, .a = codegen::slot(Scalar::minus_one)}},
      table);
  list.barrier();
  charts_->record_plus(list, x_, product_, result_, Scalar::minus_one, Scalar::one);
}

const Buffer& VulkanEngine::record_expanded(CommandList& list, const Buffer& direction) {
  if (!charted()) return direction;
  BindingTable table;
  table.set(BufferRole::first_operand, direction);
  table.set(BufferRole::result, ambient_);
  vectors_->record(
      list,
      {.op = VectorOp::copy, .constants = {.count = static_cast<std::uint32_t>(model_.scalars)}},
      table);
  list.barrier();
  charts_->record_expand(list, direction, ambient_);
  list.barrier();
  return ambient_;
}

void VulkanEngine::record_charted_holds(CommandList& list) {
  BindingTable table = solver_table();
  table.set(BufferRole::fixed, chart_held_);
  table.set(BufferRole::held, held_);
  table.set(BufferRole::lower_bounds, lower_);
  table.set(BufferRole::upper_bounds, upper_);
  table.set(BufferRole::first_operand, x_);
  const auto n = static_cast<std::uint32_t>(model_.scalars);
  list.barrier();  // its sums are nobody's
  vectors_->record(list,
                   {.op = VectorOp::bounded_norms,
                    .constants = {.count = n, .out_stride = vectors_->workgroups(n)}},
                   table);
}

void VulkanEngine::record_into_box(CommandList& list, std::uint32_t first) {
  const auto n = static_cast<std::uint32_t>(model_.scalars);
  const std::uint32_t groups = vectors_->workgroups(n);
  BindingTable table = solver_table();
  table.set(BufferRole::first_operand, trial_);
  table.set(BufferRole::result, product_);
  list.barrier();
  vectors_->record(list, {.op = VectorOp::copy, .constants = {.count = n}}, table);
  list.barrier();
  table.set(BufferRole::first_operand, product_);
  table.set(BufferRole::result, trial_);
  table.set(BufferRole::lower_bounds, lower_);
  table.set(BufferRole::upper_bounds, upper_);
  vectors_->record(list,
                   {.op = VectorOp::bounded_trial,
                    .constants = {.count = n,
                                  .out_first = first,
                                  .out_stride = groups,
                                  .a = codegen::slot(Scalar::zero)}},
                   table);
  list.barrier();
  vectors_->sum(list, partials_, first, groups, groups, Scalar::model_decrease, 3);
}

void VulkanEngine::record_charted_move(CommandList& list, Scalar length) {
  const auto n = static_cast<std::uint32_t>(model_.scalars);
  const std::uint32_t groups = vectors_->workgroups(n);
  const std::uint32_t first = 2 * block_groups();  // conjugate gradients may go on from theirs
  const bool whole = length == Scalar::one;
  BindingTable table = solver_table();
  const auto combine = [&](const Buffer& a, const Buffer& b, const Buffer& out, Scalar in_a,
                           Scalar in_b) {
    table.set(BufferRole::first_operand, a);
    table.set(BufferRole::second_operand, b);
    table.set(BufferRole::result, out);
    vectors_->record(
        list,
        {.op = VectorOp::combine,
         .constants = {.count = n, .a = codegen::slot(in_a), .b = codegen::slot(in_b)}},
        table);
    list.barrier();
  };
  if (whole && !bounded()) {
    table.set(BufferRole::first_operand, x_);
    table.set(BufferRole::result, trial_);
    vectors_->record(list,
                     {.op = VectorOp::trial_point,
                      .constants = {.count = n, .out_first = first, .out_stride = groups}},
                     table);
    list.barrier();
  } else {
    combine(step_, step_, product_, length, Scalar::zero);
    combine(x_, product_, trial_, Scalar::one, Scalar::one);
  }
  charts_->record_plus(list, x_, whole ? step_ : product_, trial_);
  if (bounded()) record_into_box(list, first);
  list.barrier();
  combine(trial_, x_, result_, Scalar::one, Scalar::minus_one);
  table.set(BufferRole::fixed, fixed_);
  table.set(BufferRole::first_operand, result_);
  table.set(BufferRole::second_operand, result_);
  vectors_->record(
      list, {.op = VectorOp::dot, .constants = {.count = n, .out_first = first + 2 * groups}},
      table);
  list.barrier();
  if (whole && !bounded())
    vectors_->sum(list, partials_, first, groups, groups, Scalar::model_decrease, 1);
  vectors_->sum(list, partials_, first + 2 * groups, groups, groups, Scalar::step_squared, 1);
}

}  // namespace topograd::runtime::vulkan
