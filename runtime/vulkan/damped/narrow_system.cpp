// Steps whose linear system another engine of the device has, in lower precision.
#include "device_steps.hpp"

#include <utility>

namespace topograd::runtime::vulkan {

bool DeviceSteps::solve_by(DeviceSteps* narrow) {
  narrow_ = nullptr;
  narrow_follows_ = false;
  *narrow_lists_ = {};
  if (narrow == nullptr) return false;
  const bool converts = context_.wide() && !narrow->context_.wide() &&
                        narrow->context_.scalar_precision() == Precision::f64;
  if (!converts || context_.device->core() != narrow->context_.device->core() ||
      problem_.order().position != narrow->problem_.order().position)
    return false;
  narrow_ = narrow;
  return true;
}

void DeviceSteps::need_conversions(Needs& needs) {
  narrow_->v_.ops->need<kernel::narrow, kernel::widen>(needs);
}

template <class Kernel>
void DeviceSteps::record_converted(CommandList& list, const Buffer& from, const Buffer& to) {
  const auto n = static_cast<std::uint32_t>(problem_.model().scalars);
  v_.ops->record(list, Kernel{{.source = from, .result = to}, {.count = n}});
}

void DeviceSteps::record_narrow_point(CommandList& list) {
  narrow_->record_converted<kernel::narrow>(list, v_.x, narrow_->v_.x);
}

/// The scalars that the box holds come from here: in f32 a point may seem to be on a bound that it
/// is not on.
void DeviceSteps::record_narrow_gradient(CommandList& list) {
  narrow_->record_converted<kernel::narrow>(list, v_.gradient, narrow_->v_.gradient);
  if (moves_.shaped()) list.copy(v_.held, 0, narrow_->v_.held, 0, v_.held.size());
}

/// All that the trial point and its report read, and how the solver stands.
void DeviceSteps::record_narrow_step(CommandList& list) {
  const StepVectors& from = narrow_->v_;
  narrow_->record_converted<kernel::widen>(list, from.step, v_.step);
  narrow_->record_converted<kernel::widen>(list, from.residual, v_.residual);
  narrow_->record_converted<kernel::widen>(list, from.damping, v_.damping);
  for (const Scalar scalar : {Scalar::state, Scalar::iterations}) {
    const std::uint64_t place = codegen::slot(scalar) * sizeof(double);
    list.copy(from.ops->scalars(), place, v_.ops->scalars(), place, sizeof(double));
  }
}

void DeviceSteps::prepare_narrow() {
  DeviceSteps& narrow = *narrow_;
  if (!narrow_follows_) narrow.variants_.follow();
  narrow.prepare();
  if (!narrow.matrix_->list) {
    *narrow.matrix_ = narrow.recorder_.make_list(
        "matrix", [&](CommandList& list) { narrow.points_.record_matrix(list); });
  }
  if (narrow_lists_->point.list) return;
  Recorder::make([&](Needs& needs) { need_conversions(needs); });
  const auto make = [&](const char* name, const Recorder::Record& record) {
    return narrow.recorder_.make_list(name, record);
  };
  narrow_lists_->point = make("narrow_point", [&](CommandList& l) { record_narrow_point(l); });
  narrow_lists_->gradient =
      make("narrow_gradient", [&](CommandList& l) { record_narrow_gradient(l); });
  narrow_lists_->step = make("narrow_step", [&](CommandList& l) { record_narrow_step(l); });
}

void DeviceSteps::queue_narrow(Lists& lists) {
  prepare_narrow();
  if (std::exchange(narrow_follows_, true)) return;
  lists.insert(lists.end(), {&narrow_lists_->point, &*narrow_->matrix_, &narrow_lists_->gradient});
}

}  // namespace topograd::runtime::vulkan
