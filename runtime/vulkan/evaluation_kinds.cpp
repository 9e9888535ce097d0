// Kernels of evaluations by kind, and times of these and of whole steps with x resident.
#include "evaluation_kinds.hpp"

#include "../../ir/error.hpp"

#include <string>
#include <utility>

namespace topograd::runtime::vulkan {

using codegen::Scalar;

bool EvaluationKinds::prepare(Pass pass) {
  return recorder_.advance((*preparations_)[pass], [&](CommandList& list) {
    // Hessians may be asked for without their negative part.
    if (pass == Pass::hessian && list.declared() != nullptr)
      hessians_.record_projection(list, 1, 1, no_buffer());
    if (pass != Pass::vjp) return record(list, pass);
    rows_.record_vjp(list);
  });
}

void EvaluationKinds::record(CommandList& list, Pass pass) {
  const Operands with_direction = terms_.operands(v_.x, &v_.x);
  switch (pass) {
    case Pass::residual:
    case Pass::hessian: return rows_.record(list, pass, terms_.operands(v_.x));
    case Pass::jacobian:
      rows_.record(list, Pass::residual, terms_.operands(v_.x));
      return rows_.record(list, pass, terms_.operands(v_.x));
    case Pass::jvp: return rows_.record(list, pass, with_direction);
    case Pass::cost: return terms_.record_cost(list, v_.x, Scalar::user);
    case Pass::gradient:
    case Pass::vjp: return sums_.record(list, Pass::gradient, terms_.operands(v_.x), v_.result);
    case Pass::jtjp: return products_.record(list, with_direction, v_.result);
    case Pass::blocks: return sums_.record_blocks(list, terms_.operands(v_.x));
    case Pass::hvp: return sums_.record(list, pass, with_direction, v_.result);
    case Pass::cost_gradient:
    case Pass::values: return sums_.record_values(list, pass, v_.x, v_.result, Scalar::user);
    case Pass::stored_jacobian:
    case Pass::stored_jtjp:
    case Pass::diagonal:
    case Pass::guards: break;
  }
  throw Error(ErrorCode::Unsupported,
              "vulkan engine: " + std::string(name(pass)) + " is no evaluation");
}

Timing EvaluationKinds::time(Pass pass, int warm_ups, int samples) {
  steps_.prepare();
  auto kept = rows_.exchange_results({});  // rows of timings are let go of
  const auto timed = [&](CommandList& list) {
    list.write_timestamp("begin");
    record(list, pass);
    list.write_timestamp("end");
  };
  Recorder::make(timed);
  const Recorded recorded = recorder_.make_list(name(pass), timed);
  recorder_.warm_up(recorded);
  const Timing timing = recorder_.time_list(recorded, warm_ups, samples);
  rows_.exchange_results(std::move(kept));
  return timing;
}

Timing EvaluationKinds::time_step(int iterations, double damping, int samples) {
  if (narrow_ != nullptr) {
    std::vector<double> x(problem_.model().scalars);
    problem_.read_point(v_.x, x);
    narrow_->set_point(x);
    return narrow_->abilities().measurements->time_step(iterations, damping, samples);
  }
  steps_.prepare();
  const StepRequest unscaled{.jacobi_scaling = false};
  Recorder::make([&](CommandList& list) {
    steps_.system().record_scale(list, unscaled);
    steps_.record_plain(list, 2);
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
