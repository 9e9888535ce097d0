// Kernels of evaluations by kind, and times of these and of whole steps with x resident.
#include "evaluation_kinds.hpp"

#include <utility>

namespace topograd::runtime::vulkan {

using codegen::Scalar;

bool EvaluationKinds::prepare(KernelKind kind) {
  return recorder_.advance((*preparations_)[kind],
                           [&](Needs& needs) {
                             // Hessians may be asked for without their negative part.
                             if (kind == KernelKind::hessian) hessians_.need_projection(needs);
                             if (kind != KernelKind::vjp) return need(needs, kind);
                             rows_.need(needs, Pass::vjp);
                           },
                           [&](CommandList& list) {
                             if (kind != KernelKind::vjp) return record(list, kind);
                             rows_.record_vjp(list);
                           });
}

void EvaluationKinds::need(Needs& needs, KernelKind kind) {
  switch (kind) {
    case KernelKind::residual: return rows_.need(needs, Pass::residual);
    case KernelKind::jacobian:
      rows_.need(needs, Pass::residual);
      return rows_.need(needs, Pass::jacobian);
    case KernelKind::jvp: return rows_.need(needs, Pass::jvp);
    case KernelKind::cost: return terms_.need_cost(needs);
    case KernelKind::gradient:
    case KernelKind::vjp: return sums_.need(needs, Pass::gradient);
    case KernelKind::jtjp: return products_.need(needs);
    case KernelKind::blocks: return sums_.need_blocks(needs);
    case KernelKind::hvp: return sums_.need(needs, Pass::hvp);
    case KernelKind::hessian: return rows_.need(needs, Pass::hessian);
    case KernelKind::cost_gradient: return sums_.need_values(needs, Pass::cost_gradient);
    case KernelKind::values: return sums_.need_values(needs, Pass::values);
  }
}

void EvaluationKinds::record(CommandList& list, KernelKind kind) {
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

Timing EvaluationKinds::time(KernelKind kind, int warm_ups, int samples) {
  steps_.prepare();
  auto kept = rows_.exchange_results({});  // rows of timings are let go of
  const auto timed = [&](CommandList& list) {
    list.write_timestamp("begin");
    record(list, kind);
    list.write_timestamp("end");
  };
  Recorder::make([&](Needs& needs) { need(needs, kind); });
  const Recorded recorded = recorder_.make_list(name(kind), timed);
  recorder_.warm_up(recorded);
  const Timing timing = recorder_.time_list(recorded, warm_ups, samples);
  rows_.exchange_results(std::move(kept));
  return timing;
}

Timing EvaluationKinds::time_step(int iterations, double damping, int samples) {
  steps_.prepare();
  const StepRequest unscaled{.jacobi_scaling = false};
  Recorder::make([&](Needs& needs) {
    steps_.system().need_scale(needs, unscaled);
    steps_.need_plain(needs);
  });
  recorder_.submit(recorder_.make_list(
      "unit_scale", [&](CommandList& list) { steps_.system().record_scale(list, unscaled); }));
  steps_.system().is_scaled() = false;
  const std::pair<Scalar, double> scalars[] = {
      {Scalar::lambda, damping}, {Scalar::min_diagonal, 1.0}, {Scalar::max_diagonal, 1.0},
      {Scalar::tolerance, 0.0},  {Scalar::eta, 0.0},          {Scalar::max_iterations, iterations}};
  v_.ops->write(scalars);
  const auto timed = [&](CommandList& list) {
    list.write_timestamp("begin");
    steps_.record_plain(list, iterations);
    list.write_timestamp("end");
  };
  const Recorded recorded = recorder_.make_list("step", timed);
  recorder_.warm_up(recorded);
  return recorder_.time_list(recorded, 3, samples);
}

}  // namespace topograd::runtime::vulkan
