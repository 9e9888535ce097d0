// Steps whose linear system another engine of the device holds, in lower precision.
#include "vulkan_engine.hpp"

#include <utility>

namespace topograd::runtime::vulkan {

using codegen::BufferRole;

bool VulkanEngine::solve_by(NarrowSolve& narrow) {
  narrow_ = {};
  *narrow_lists_ = {};
  VulkanEngine* const other = &narrow.engine();
  if (other == this) return false;
  const bool converts = context_.wide() && !other->context_.wide() &&
                        other->context_.scalar_precision() == Precision::f64;
  if (!converts || context_.device->core() != other->context_.device->core() ||
      problem_.order().position != other->problem_.order().position)
    return false;
  narrow_.engine = other;
  return true;
}

void VulkanEngine::record_converted(CommandList& list, VectorOp op, const Buffer& from,
                                    const Buffer& to) {
  BindingTable table;
  table.set(BufferRole::first_operand, from);
  table.set(BufferRole::result, to);
  v_.ops->record(
      list,
      {.op = op, .constants = {.count = static_cast<std::uint32_t>(problem_.model().scalars)}},
      table);
}

/// With what the box holds here: in f32 a point may seem to be on a bound that it is not on.
void VulkanEngine::record_narrow_gradient(CommandList& list) {
  VulkanEngine& narrow = *narrow_.engine;
  narrow.record_converted(list, VectorOp::narrow, v_.gradient, narrow.v_.gradient);
  if (moves_.shaped() && !context_.collecting)
    list.copy(v_.held, 0, narrow.v_.held, 0, v_.held.size());
}

/// All that the trial point and its report read, and how the solver stands.
void VulkanEngine::record_narrow_step(CommandList& list) {
  VulkanEngine& narrow = *narrow_.engine;
  narrow.record_converted(list, VectorOp::widen, narrow.v_.step, v_.step);
  narrow.record_converted(list, VectorOp::widen, narrow.v_.residual, v_.residual);
  narrow.record_converted(list, VectorOp::widen, narrow.v_.damping, v_.damping);
  for (const Scalar scalar : {Scalar::state, Scalar::iterations}) {
    const std::uint64_t place = codegen::slot(scalar) * sizeof(double);
    list.copy(narrow.v_.ops->scalars(), place, v_.ops->scalars(), place, sizeof(double));
  }
}

void VulkanEngine::prepare_narrow() {
  VulkanEngine& narrow = *narrow_.engine;
  if (!narrow_.follows) narrow.variants_.follow();
  narrow.prepare_lists();
  if (!narrow.linear_lists_->matrix.list) {
    narrow.linear_lists_->matrix = narrow.recorder_.make_list("matrix", [&](CommandList& list) {
      narrow.products_.record_matrix(list);
      narrow.moves_.record_tangents(list);
    });
  }
  if (narrow_lists_->point.list) return;
  const auto point = [&](CommandList& list) {
    narrow.record_converted(list, VectorOp::narrow, v_.x, narrow.v_.x);
  };
  const auto gradient = [&](CommandList& list) { record_narrow_gradient(list); };
  const auto step = [&](CommandList& list) { record_narrow_step(list); };
  narrow.recorder_.collect([&](CommandList& list) {
    point(list);
    list.barrier();
    step(list);
  });
  narrow.recorder_.finish_kernels();
  narrow_lists_->point = narrow.recorder_.make_list("narrow_point", point);
  narrow_lists_->gradient = narrow.recorder_.make_list("narrow_gradient", gradient);
  narrow_lists_->step = narrow.recorder_.make_list("narrow_step", step);
}

void VulkanEngine::queue_narrow(std::vector<const Recorded*>& lists) {
  prepare_narrow();
  if (std::exchange(narrow_.follows, true)) return;
  lists.insert(lists.end(), {&narrow_lists_->point, &narrow_.engine->linear_lists_->matrix,
                             &narrow_lists_->gradient});
}

}  // namespace topograd::runtime::vulkan
