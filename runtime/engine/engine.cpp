// Kinds of evaluation, and defaults for optional abilities.
#include "engine.hpp"

#include <algorithm>
#include <cmath>

#include "../../ir/error.hpp"
#include "first_order.hpp"
#include "step_elimination.hpp"

namespace topograd::runtime {
namespace {

/// An evaluation that has already run.
class Finished final : public Pending {
 public:
  bool ready() const override { return true; }
  void finish() override {}
};

template <class Ability>
Ability& require(Ability* ability, const Engine& engine, const char* what) {
  if (ability != nullptr) return *ability;
  throw Error(ErrorCode::Unsupported,
              std::string(name(engine.backend())) + ": this engine has no " + what);
}

}  // namespace

DampedSteps& damped_steps(Engine& engine) {
  return require(engine.abilities().steps, engine, "damped steps");
}
StepLengths& step_lengths(Engine& engine) {
  return require(engine.abilities().step_lengths, engine, "steps of other lengths");
}
SecondDerivatives& second_derivatives(Engine& engine) {
  return require(engine.abilities().second_derivatives, engine, "second derivatives");
}

bool prepare(Engine& engine, const Need& need) {
  const Abilities able = engine.abilities();
  if (able.kernels_ahead == nullptr) return true;
  switch (need.of) {
    case Need::Of::evaluation: return able.kernels_ahead->prepare(need.pass);
    case Need::Of::damped_step: return able.kernels_ahead->prepare_step();
    case Need::Of::first_order_step:
      return able.gradient_steps && able.gradient_steps->first_order_steps(false) != nullptr;
    case Need::Of::descent_step:
      return able.gradient_steps && able.gradient_steps->descent_steps(false) != nullptr;
  }
  return true;
}

std::unique_ptr<Pending> begin(Engine& engine, Pass pass, std::span<const double> x,
                               std::span<const double> p, std::span<double> out) {
  if (AsynchronousEvaluations* const able = engine.abilities().asynchronous)
    return able->begin(pass, x, p, out);
  engine.set_point(x);
  switch (pass) {
    case Pass::cost: out[0] = engine.cost(); break;
    case Pass::residual: engine.residuals(out); break;
    case Pass::gradient: engine.gradient(out); break;
    case Pass::jvp: engine.jvp(p, out); break;
    case Pass::jtjp: engine.jtjp(p, out); break;
    case Pass::hvp: second_derivatives(engine).hvp(p, out); break;
    case Pass::jacobian:
    case Pass::blocks:
    case Pass::vjp:
    case Pass::hessian:
    case Pass::cost_gradient:
    case Pass::values:
    case Pass::stored_jacobian:
    case Pass::stored_jtjp:
    case Pass::diagonal:
    case Pass::guards:
      throw Error(ErrorCode::Unsupported,
                  "begin: expected cost, residual, gradient, jvp, jtjp or "
                  "hvp, got " +
                      std::string(name(pass)));
  }
  return std::make_unique<Finished>();
}

Pass pass_of_values(bool cost, bool residuals, bool gradient) {
  if (!gradient) return residuals ? Pass::residual : Pass::cost;
  if (residuals) return Pass::values;
  return cost ? Pass::cost_gradient : Pass::gradient;
}

void evaluate(Engine& engine, const Values& wanted) {
  if (SeveralValues* const able = engine.abilities().several_values) return able->evaluate(wanted);
  evaluate_in_turn(engine, wanted);
}

void evaluate_in_turn(Engine& engine, const Values& wanted) {
  if (wanted.cost != nullptr) *wanted.cost = engine.cost();
  if (!wanted.residuals.empty()) engine.residuals(wanted.residuals);
  if (!wanted.gradient.empty()) engine.gradient(wanted.gradient);
}

void evaluate_unless_refused(Engine& engine, const Values& wanted) {
  const double known = engine.cost();
  if (wanted.cost != nullptr) *wanted.cost = known;
  if (!std::isnan(known))
    return evaluate_in_turn(engine, {.residuals = wanted.residuals, .gradient = wanted.gradient});
  std::ranges::fill(wanted.residuals, known);
  std::ranges::fill(wanted.gradient, known);
}

std::vector<MemoryUse> together(std::vector<MemoryUse> uses, const std::vector<MemoryUse>& more) {
  for (const MemoryUse& one : more) {
    const auto same = std::ranges::find(uses, one.use, &MemoryUse::use);
    if (same == uses.end()) {
      uses.push_back(one);
      continue;
    }
    same->host += one.host;
    same->device = std::max(same->device, one.device);
  }
  return uses;
}

EliminationUse eliminate(Engine& engine, std::span<const std::uint8_t> scalars) {
  if (StepElimination* const able = engine.abilities().elimination) return able->eliminate(scalars);
  return {.why = {MatrixReason::no_ability}};
}

FactorUse factorize(Engine& engine, bool wanted) {
  if (StepElimination* const able = engine.abilities().elimination) return able->factorize(wanted);
  return {.why = {MatrixReason::no_ability}};
}

}  // namespace topograd::runtime
