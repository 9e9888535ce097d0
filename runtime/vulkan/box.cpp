// Steps within bounds on the device: what holds a point on them, and projected trial points.
#include "../../ir/error.hpp"
#include "vulkan_engine.hpp"

#include <algorithm>

namespace topograd::runtime::vulkan {

using codegen::BufferRole;

void VulkanEngine::make_box() {
  for (Buffer* buffer : {&lower_, &upper_}) *buffer = Buffer();
  if (!bounded()) return;
  lower_ = make_numbers(context_, problem_.model().scalars, "lower_bounds");
  upper_ = make_numbers(context_, problem_.model().scalars, "upper_bounds");
  const std::vector<std::uint32_t> none(problem_.model().scalars, 0);
  v_.held = make_buffer(context_, none, "held");
  write_box();
}

/// In f32 they are rounded to the nearest, as x is, so that x is on its bound where it was.
void VulkanEngine::write_box() {
  write_numbers(context_, lower_, problem_.model().lower);
  write_numbers(context_, upper_, problem_.model().upper);
}

void VulkanEngine::hold(std::span<const std::uint8_t> held) {
  if (!bounded())
    throw Error(ErrorCode::Unsupported,
                std::string(name(backend())) + " engine: steps know no box");
  std::vector<std::uint32_t> words(held.begin(), held.end());
  for (std::size_t k = 0; k < problem_.order().position.size(); ++k)
    words[problem_.order().position[k]] = held[k];
  context_.device->upload<std::uint32_t>(v_.held, words);
}

void VulkanEngine::record_point_norms(CommandList& list) {
  BindingTable table = v_.table();
  table.set(BufferRole::first_operand, v_.x);
  if (bounded()) {
    table.set(BufferRole::fixed, v_.fixed);
    table.set(BufferRole::held, v_.held);
    table.set(BufferRole::lower_bounds, lower_);
    table.set(BufferRole::upper_bounds, upper_);
  }
  if (charted()) {
    record_gradient_moves(list);
    list.barrier();
    table.set(BufferRole::fixed, v_.fixed);
    table.set(BufferRole::gradient, v_.result);
  }
  const auto n = static_cast<std::uint32_t>(problem_.model().scalars);
  const std::uint32_t groups = v_.ops->workgroups(n);
  v_.ops->record(list,
                 {.op = bounded() ? VectorOp::bounded_norms : VectorOp::point_norms,
                  .constants = {.count = n, .out_stride = groups}},
                 table);
  list.barrier();
  v_.ops->sum(list, v_.partials, 0, groups, groups, Scalar::gradient_squared, 2);
  v_.ops->sum(list, v_.partials, 2 * groups, groups, groups, Scalar::gradient_max, 1, true);
  if (bounded() && charted()) record_charted_holds(list);
}

void VulkanEngine::record_move(CommandList& list, Scalar length) {
  BindingTable table = v_.table();
  table.set(BufferRole::first_operand, v_.x);
  table.set(BufferRole::result, v_.trial);
  const auto n = static_cast<std::uint32_t>(problem_.model().scalars);
  if (charted()) return record_charted_move(list, length);
  if (!bounded() && length != Scalar::one) {
    table.set(BufferRole::second_operand, v_.step);
    v_.ops->record(list,
                   {.op = VectorOp::combine, .constants = {.count = n, .b = codegen::slot(length)}},
                   table);
    list.barrier();
    return;
  }
  if (bounded()) {
    table.set(BufferRole::lower_bounds, lower_);
    table.set(BufferRole::upper_bounds, upper_);
  }
  const std::uint32_t groups = v_.ops->workgroups(n);
  const std::uint32_t first =
      2 * (v_.block_groups() + v_.most_coarse);  // conjugate gradients may go on from theirs
  v_.ops->record(list,
                 {.op = bounded() ? VectorOp::bounded_trial : VectorOp::trial_point,
                  .constants = {.count = n,
                                .out_first = first,
                                .out_stride = groups,
                                .a = codegen::slot(length)}},
                 table);
  list.barrier();
  v_.ops->sum(list, v_.partials, first, groups, groups, Scalar::model_decrease, bounded() ? 3 : 2);
}

}  // namespace topograd::runtime::vulkan
