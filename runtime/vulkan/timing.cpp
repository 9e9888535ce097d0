// Timing of single evaluations and of whole steps with x resident.
#include "vulkan_engine.hpp"

#include <utility>

namespace topograd::runtime::vulkan {

void VulkanEngine::record_kind(CommandList& list, KernelKind kind) {
  const Operands with_direction = terms_.operands(v_.x, &v_.x);
  switch (kind) {
    case KernelKind::residual: return rows_.record(list, Pass::residual, terms_.operands(v_.x));
    case KernelKind::jacobian:
      rows_.record(list, Pass::residual, terms_.operands(v_.x));
      return rows_.record(list, Pass::jacobian, terms_.operands(v_.x));
    case KernelKind::jvp: return rows_.record(list, Pass::jvp, with_direction);
    case KernelKind::cost: return terms_.record_cost(list, v_.x, Scalar::user);
    case KernelKind::gradient:
    case KernelKind::vjp:
      return sums_.record(list, Pass::gradient, terms_.operands(v_.x), v_.result);
    case KernelKind::jtjp: return products_.record(list, with_direction, v_.result);
    case KernelKind::blocks: return sums_.record_blocks(list, terms_.operands(v_.x));
    case KernelKind::hvp: return sums_.record(list, Pass::hvp, with_direction, v_.result);
    case KernelKind::hessian: return rows_.record(list, Pass::hessian, terms_.operands(v_.x));
    case KernelKind::cost_gradient:
      return sums_.record_values(list, Pass::cost_gradient, v_.x, v_.result, Scalar::user);
    case KernelKind::values:
      return sums_.record_values(list, Pass::values, v_.x, v_.result, Scalar::user);
  }
}

Timing VulkanEngine::time(KernelKind kind, int warm_ups, int samples) {
  prepare_lists();
  auto kept = rows_.exchange_results({});  // rows of timings are let go of
  const auto record = [&](CommandList& list) {
    list.write_timestamp("begin");
    record_kind(list, kind);
    list.write_timestamp("end");
  };
  recorder_.collect(record);
  recorder_.finish_kernels();
  const Recorded recorded = recorder_.make_list(name(kind), record);
  recorder_.warm_up(recorded);
  const Timing timing = recorder_.time_list(recorded, warm_ups, samples);
  rows_.exchange_results(std::move(kept));
  return timing;
}

Timing VulkanEngine::time_step(int iterations, double damping, int samples) {
  prepare_lists();
  recorder_.run_once("unit_scale",
                     [&](CommandList& list) { record_scale(list, {.jacobi_scaling = false}); });
  scale_is_set_ = false;
  const std::pair<Scalar, double> scalars[] = {
      {Scalar::lambda, damping}, {Scalar::min_diagonal, 1.0}, {Scalar::max_diagonal, 1.0},
      {Scalar::tolerance, 0.0},  {Scalar::eta, 0.0},          {Scalar::max_iterations, iterations}};
  v_.ops->write(scalars);
  const auto record = [&](CommandList& list) {
    list.write_timestamp("begin");
    record_linearize(list);
    list.barrier();
    record_solve_start(list, false);
    record_iterations(list, iterations, false);
    record_trial(list);
    list.write_timestamp("end");
  };
  recorder_.collect(record);
  recorder_.finish_kernels();
  const Recorded recorded = recorder_.make_list("step", record);
  recorder_.warm_up(recorded);
  return recorder_.time_list(recorded, 3, samples);
}

}  // namespace topograd::runtime::vulkan
