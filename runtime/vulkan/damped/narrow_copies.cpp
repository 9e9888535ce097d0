// Conversions between f64 and f32, by kernels of the narrow side.
#include "narrow_copies.hpp"

namespace topograd::runtime::vulkan {

using codegen::Scalar;

template <class Kernel>
void NarrowCopies::record(CommandList& list, const Buffer& from, const Buffer& to) {
  const auto n = static_cast<std::uint32_t>(problem_.model().scalars);
  narrow_.v_.ops->record(list, Kernel{{.source = from, .result = to}, {.count = n}});
}

void NarrowCopies::record_point(CommandList& list) {
  record<kernel::narrow>(list, v_.x, narrow_.v_.x);
}

/// The scalars on active bounds come from here: in f32 a point may seem to be on a bound that it is
/// not on.
void NarrowCopies::record_gradient(CommandList& list) {
  record<kernel::narrow>(list, v_.gradient, narrow_.v_.gradient);
  if (moves_.has_bounds_or_manifolds()) list.copy(v_.held, 0, narrow_.v_.held, 0, v_.held.size());
}

void NarrowCopies::record_step(CommandList& list) {
  const StepVectors& from = narrow_.v_;
  record<kernel::widen>(list, from.step, v_.step);
  record<kernel::widen>(list, from.residual, v_.residual);
  record<kernel::widen>(list, from.damping, v_.damping);
  for (const Scalar scalar : {Scalar::state, Scalar::iterations, Scalar::vanished}) {
    const std::uint64_t place = codegen::slot(scalar) * sizeof(double);
    list.copy(from.ops->scalars(), place, v_.ops->scalars(), place, sizeof(double));
  }
}

void NarrowCopies::record_all(CommandList& list) {
  record_point(list);
  record_gradient(list);
  record_step(list);
}

void NarrowCopies::prepare() {
  if (lists_->point.list) return;
  narrow_.recorder_.make_lists(
      {{lists_->point, "narrow_point", [&](CommandList& list) { record_point(list); }},
       {lists_->gradient, "narrow_gradient", [&](CommandList& list) { record_gradient(list); }},
       {lists_->step, "narrow_step", [&](CommandList& list) { record_step(list); }}});
}

}  // namespace topograd::runtime::vulkan
