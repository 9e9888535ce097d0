// Names of the kinds of evaluation, and what an engine need not have.
#include "engine.hpp"

#include "../cpu/interpreter/rows.hpp"

#include "../../ir/error.hpp"

#include <algorithm>
#include <cmath>

namespace topograd::runtime {
namespace {

[[noreturn]] void refuse_second_derivatives(Backend backend) {
  throw Error(ErrorCode::Unsupported,
              std::string(name(backend)) + ": this engine has no second derivatives");
}

/// An evaluation that ran when it was begun.
class Finished final : public Pending {
 public:
  bool ready() const override { return true; }
  void finish() override {}
};

}  // namespace

std::unique_ptr<Pending> Engine::begin(KernelKind kind, std::span<const double> x,
                                       std::span<const double> p, std::span<double> out) {
  set_point(x);
  switch (kind) {
    case KernelKind::cost: out[0] = cost(); break;
    case KernelKind::residual: residuals(out); break;
    case KernelKind::gradient: gradient(out); break;
    case KernelKind::jvp: jvp(p, out); break;
    case KernelKind::jtjp: jtjp(p, out); break;
    case KernelKind::hvp: hvp(p, out); break;
    case KernelKind::jacobian:
    case KernelKind::blocks:
    case KernelKind::vjp:
    case KernelKind::hessian:
    case KernelKind::cost_gradient:
    case KernelKind::values:
      throw Error(ErrorCode::Unsupported,
                  "begin: expected cost, residual, gradient, jvp, jtjp or "
                  "hvp, got " +
                      std::string(name(kind)));
  }
  return std::make_unique<Finished>();
}

KernelKind kind_of_values(bool cost, bool residuals, bool gradient) {
  if (!gradient) return residuals ? KernelKind::residual : KernelKind::cost;
  if (residuals) return KernelKind::values;
  return cost ? KernelKind::cost_gradient : KernelKind::gradient;
}

void Engine::evaluate(const Values& wanted) {
  if (wanted.cost != nullptr) *wanted.cost = cost();
  if (!wanted.residuals.empty()) residuals(wanted.residuals);
  if (!wanted.gradient.empty()) gradient(wanted.gradient);
}

void Engine::evaluate_unless_refused(const Values& wanted) {
  const double known = cost();
  if (!std::isnan(known)) {
    if (wanted.cost != nullptr) *wanted.cost = known;
    return Engine::evaluate({.residuals = wanted.residuals, .gradient = wanted.gradient});
  }
  if (wanted.cost != nullptr) *wanted.cost = known;
  std::ranges::fill(wanted.residuals, known);
  std::ranges::fill(wanted.gradient, known);
}

void Engine::hvp(std::span<const double>, std::span<double>) {
  refuse_second_derivatives(backend());
}
void Engine::hessian(std::size_t, bool, std::span<double>) { refuse_second_derivatives(backend()); }

std::string_view name(KernelKind kind) {
  switch (kind) {
    case KernelKind::residual: return "residual";
    case KernelKind::cost: return "cost";
    case KernelKind::gradient: return "gradient";
    case KernelKind::jacobian: return "jacobian";
    case KernelKind::jtjp: return "jtjp";
    case KernelKind::blocks: return "blocks";
    case KernelKind::jvp: return "jvp";
    case KernelKind::vjp: return "vjp";
    case KernelKind::hvp: return "hvp";
    case KernelKind::hessian: return "hessian";
    case KernelKind::cost_gradient: return "cost_gradient";
    case KernelKind::values: return "values";
  }
  return "";
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

void Engine::trial_point(std::span<double>) {
  throw Error(ErrorCode::Unsupported,
              "engine " + std::string(name(backend())) + ": it cannot show its trial point");
}

void Engine::hold(std::span<const std::uint8_t>) {
  throw Error(ErrorCode::Unsupported, std::string(name(backend())) + " engine: steps know no box");
}

void Engine::set_gradient(std::span<const double>) {
  throw Error(ErrorCode::Unsupported,
              "engine " + std::string(name(backend())) + ": its gradient is its own");
}

void Engine::last_step(std::span<double>) {
  throw Error(ErrorCode::Unsupported,
              "engine " + std::string(name(backend())) + ": it cannot show its step");
}

StepReport Engine::rescale_step(double) {
  throw Error(ErrorCode::Unsupported,
              "engine " + std::string(name(backend())) + ": its steps have one length");
}

std::unique_ptr<RowRunner> Engine::row_runner() const {
  return cpu::make_row_runner(Precision::f64);
}

}  // namespace topograd::runtime
