// Sums, means and extremes of tensors along axes.
#include "operations.hpp"

#include "../../ir/error.hpp"
#include "fused_run.hpp"
#include "state.hpp"

#include <algorithm>

namespace topograd::ops {
namespace {

using detail::state_of;

/// The reduced axes as flags.
std::vector<bool> reduced_axes(const char* call, const Shape& shape, const Axes& axes) {
  std::vector<bool> reduced(shape.size(), axes.empty());
  for (const std::int64_t axis : axes) {
    const std::size_t at = checked_axis(call, shape, axis);
    if (reduced[at]) {
      throw Error(ErrorCode::InvalidArgument,
                  std::string(call) + ": expected each axis once, got " + to_text(axes));
    }
    reduced[at] = true;
  }
  return reduced;
}

Shape without(const Shape& shape, const std::vector<bool>& reduced, bool keep) {
  Shape out;
  for (std::size_t k = 0; k < shape.size(); ++k) {
    if (!reduced[k]) out.push_back(shape[k]);
    if (reduced[k] && keep) out.push_back(1);
  }
  return out;
}

/// Reorders entries: kept axes first, then reduced ones.
template <class T>
std::vector<T> kept_first(const std::vector<T>& from, const std::vector<bool>& reduced) {
  std::vector<T> out;
  for (const bool last : {false, true})
    for (std::size_t k = 0; k < from.size(); ++k)
      if (reduced[k] == last) out.push_back(from[k]);
  return out;
}

Tensor reduce(const char* call, const Tensor& a, detail::FusedReduction reduction, const Axes& axes,
              bool keep) {
  const detail::TensorState& own = state_of(call, a);
  const std::vector<bool> reduced = reduced_axes(call, own.shape, axes);
  std::int64_t depth = 1;
  for (std::size_t k = 0; k < own.shape.size(); ++k)
    if (reduced[k]) depth *= own.shape[k];
  if (depth == 0 && reduction != detail::FusedReduction::sum) {
    throw Error(ErrorCode::InvalidArgument,
                std::string(call) + ": expected at least one entry, got " + to_text(own.shape));
  }
  const Type type = own.type == Type::f16 ? Type::f32 : own.type;
  if (reduction == detail::FusedReduction::argmax || reduction == detail::FusedReduction::argmin)
    detail::check_places(call, type, depth);
  Tensor out = detail::make_tensor(without(own.shape, reduced, keep), type, own.device);
  const auto outputs = static_cast<std::uint64_t>(out.count());
  if (depth == 0) return full(out.shape(), 0, type).evaluate();
  // An expression that was not computed is fused, and its result is not stored.
  detail::PendingExpression pending;
  if (own.data.storage) {
    pending.program = detail::identity_program();
    pending.inputs.push_back({own.data, own.type, own.shape, nullptr});
  } else {
    pending = *own.pending;
  }
  for (detail::PendingInput& input : pending.inputs)
    input.view.strides = kept_first(input.view.strides, reduced);
  const detail::FusedLoop loop =
      detail::make_loop(kept_first(own.shape, reduced), type, pending, own.device, 3);
  detail::run_reduce(loop, reduction, outputs, static_cast<std::uint64_t>(depth),
                     out.state()->data);
  return out;
}

/// The derivative of an extreme: distributed to the equal entries.
Tensor extreme(const char* call, const Tensor& a, detail::FusedReduction reduction,
               const Axes& axes, bool keep) {
  const Tensor kept = reduce(call, a, reduction, axes, true);
  const std::vector<bool> reduced = reduced_axes(call, a.shape(), axes);
  Tensor out = detail::make_view(
      kept, without(a.shape(), reduced, keep),
      {kept.state()->data.storage, 0, contiguous_strides(without(a.shape(), reduced, keep))});
  if (!detail::wants_grad({&a, 1})) return out;
  detail::record(out, {&a, 1}, [value = a.detach(), kept, axes](const Tensor& g) {
    const Tensor chosen = equal(value, kept);
    return std::vector{chosen * (g.reshape(kept.shape()) / sum(chosen, axes, true))};
  });
  return out;
}

}  // namespace

Tensor sum(const Tensor& a, const Axes& axes, bool keep) {
  Tensor out = reduce("sum", a, detail::FusedReduction::sum, axes, keep);
  const Shape kept = without(a.shape(), reduced_axes("sum", a.shape(), axes), true);
  detail::record(out, {&a, 1}, [shape = a.shape(), kept](const Tensor& g) {
    return std::vector{g.reshape(kept).broadcast_to(shape)};
  });
  return out;
}

namespace {

Tensor mean_named(const char* call, const Tensor& a, const Axes& axes, bool keep) {
  reduced_axes(call, state_of(call, a).shape, axes);  // errors name it
  const Tensor total = sum(a, axes, keep);
  const double entries = static_cast<double>(a.count()) /
                         static_cast<double>(std::max<std::int64_t>(total.count(), 1));
  return total * (1 / entries);
}

}  // namespace

Tensor mean(const Tensor& a, const Axes& axes, bool keep) {
  return mean_named("mean", a, axes, keep);
}

Tensor max(const Tensor& a, const Axes& axes, bool keep) {
  return extreme("max", a, detail::FusedReduction::max, axes, keep);
}
Tensor min(const Tensor& a, const Axes& axes, bool keep) {
  return extreme("min", a, detail::FusedReduction::min, axes, keep);
}

Tensor variance(const Tensor& a, const Axes& axes, bool keep) {
  return mean(square(a - mean_named("variance", a, axes, true)), axes, keep);
}

Tensor argmax(const Tensor& a, std::int64_t axis) {
  return reduce("argmax", a, detail::FusedReduction::argmax, {axis}, false);
}
Tensor argmin(const Tensor& a, std::int64_t axis) {
  return reduce("argmin", a, detail::FusedReduction::argmin, {axis}, false);
}

}  // namespace topograd::ops
