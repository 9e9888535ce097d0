// An engine that starts on the interpreter and goes on on a device.
#include "tiered_engine.hpp"

#include "../../runtime/engine/elimination.hpp"
#include "../../runtime/rows/rows.hpp"

#include <utility>

namespace topograd {
namespace {

using runtime::Engine;
using runtime::EngineStats;
using runtime::Pass;

// Further kinds, next to those of evaluations.
constexpr int kStep = -1, kRules = -2, kDescent = -3;

}  // namespace

TieredEngine::TieredEngine(std::unique_ptr<Engine> device, Make make,
                           std::function<bool(const Error&)> is_device_error)
    : device_(std::move(device)),
      make_cpu_(std::move(make)),
      is_device_error_(std::move(is_device_error)) {
  make_cpu();
}

void TieredEngine::make_cpu() {
  if (!cpu_) cpu_ = make_cpu_();
}

void TieredEngine::drop_cpu() {
  if (!cpu_) return;
  before_ += cpu_->stats();
  cpu_ = nullptr;
}

std::string TieredEngine::reason(const std::string& why) const {
  if (!failure_.empty()) return "cpu: the device could not make its kernels: " + failure_;
  if (!on_device_) return "cpu: serves until the device's kernels are compiled (" + why + ")";
  if (stats().kernels_on_cpu == 0) return why;
  return why + "; the interpreter served until the kernels were compiled";
}

runtime::Abilities TieredEngine::abilities() {
  const runtime::Abilities here = current().abilities();
  return {.steps = this,
          .step_lengths = here.step_lengths,
          .elimination = (device_ ? *device_ : *cpu_).abilities().elimination,
          .gradient_steps = this,
          .second_derivatives = this,
          .several_values = this,
          .asynchronous = here.asynchronous ? this : nullptr,
          .guards = here.guards,
          .kernels_ahead = this,
          .known_point = here.known_point,
          .plans = this,
          .measurements = here.measurements};
}

std::unique_ptr<runtime::RowRunner> TieredEngine::row_runner() const {
  return current().row_runner();
}

EngineStats TieredEngine::stats() const {
  EngineStats sum = before_;
  if (cpu_) sum += cpu_->stats();
  if (device_) sum += device_->stats();
  return sum;
}

std::string TieredEngine::accumulation() const {
  return current().abilities().plans->accumulation();
}

runtime::PlanRecord TieredEngine::plan() const {
  return (device_ ? *device_ : *cpu_).abilities().plans->plan();
}

/// True if the device serves `what`. Nothing waits.
template <class Prepare>
bool TieredEngine::ready(int what, const Prepare& prepare) {
  if (!device_) return false;
  try {
    if (prepare(*device_)) {
      waiting_.erase(what);
      return true;
    }
    waiting_.insert(what);
    return false;
  } catch (const Error& error) {
    if (on_device_ || !is_device_error_(error)) throw;
    failure_ = error.what();
    before_ += device_->stats();
    before_.device_bytes = 0;  // they go with it
    device_ = nullptr;
    return false;
  }
}

bool TieredEngine::prepare(Pass pass) {
  return ready(static_cast<int>(pass),
               [&](Engine& engine) { return runtime::prepare(engine, pass); }) ||
         !device_;
}
bool TieredEngine::prepare_step() {
  return ready(kStep, [](Engine& engine) { return runtime::prepare_step(engine); }) || !device_;
}

void TieredEngine::refresh(const runtime::Model& model) {
  if (cpu_) cpu_->refresh(model);
  if (device_) device_->refresh(model);
}

Engine& TieredEngine::move(bool to_device) {
  if (to_device == on_device_) return current();
  if (!to_device) make_cpu();
  if (!x_.empty()) {
    current().point(x_);
    (to_device ? *device_ : *cpu_).set_point(x_);
  }
  on_device_ = to_device;
  if (on_device_ && waiting_.empty()) drop_cpu();
  return current();
}

Engine& TieredEngine::serve(Pass pass) {
  const bool device =
      ready(static_cast<int>(pass), [&](Engine& engine) { return runtime::prepare(engine, pass); });
  return stepping_ ? current() : move(device);
}

void TieredEngine::set_point(std::span<const double> x) {
  stepping_ = false;
  x_.assign(x.begin(), x.end());
  current().set_point(x);
}

double TieredEngine::cost() { return serve(Pass::cost).cost(); }
void TieredEngine::residuals(std::span<double> out) { serve(Pass::residual).residuals(out); }
void TieredEngine::gradient(std::span<double> out) { serve(Pass::gradient).gradient(out); }
void TieredEngine::evaluate(const runtime::Values& wanted) {
  runtime::evaluate(serve(wanted.pass()), wanted);
}
void TieredEngine::jacobian(std::size_t term, std::span<double> values) {
  serve(Pass::jacobian).jacobian(term, values);
}
void TieredEngine::jvp(std::span<const double> p, std::span<double> out) {
  serve(Pass::jvp).jvp(p, out);
}
void TieredEngine::vjp(std::span<const double> seeds, std::span<double> out) {
  serve(Pass::vjp).vjp(seeds, out);
}
void TieredEngine::jtjp(std::span<const double> p, std::span<double> out) {
  serve(Pass::jtjp).jtjp(p, out);
}
void TieredEngine::hvp(std::span<const double> p, std::span<double> out) {
  runtime::second_derivatives(serve(Pass::hvp)).hvp(p, out);
}
void TieredEngine::hessian(std::size_t term, bool project, std::span<double> values) {
  runtime::second_derivatives(serve(Pass::hessian)).hessian(term, project, values);
}

std::unique_ptr<runtime::Pending> TieredEngine::begin(Pass pass, std::span<const double> x,
                                                      std::span<const double> p,
                                                      std::span<double> out) {
  stepping_ = false;
  x_.assign(x.begin(), x.end());
  return runtime::begin(serve(pass), pass, x, p, out);
}

void TieredEngine::begin_solve() {
  if (cpu_) cpu_->abilities().steps->begin_solve();
  if (device_) device_->abilities().steps->begin_solve();
}

runtime::PointReport TieredEngine::linearize() {
  bool device = ready(kStep, [](Engine& engine) { return runtime::prepare_step(engine); });
  // Evaluations that were asked for between linearisations are needed there, too.
  for (const int kind : std::set<int>(waiting_)) {
    if (kind < 0) continue;
    device &= ready(
        kind, [&](Engine& engine) { return runtime::prepare(engine, static_cast<Pass>(kind)); });
  }
  move(device);
  stepping_ = true;
  return steps_here().linearize();
}
runtime::StepReport TieredEngine::try_step(const runtime::StepRequest& request) {
  return steps_here().try_step(request);
}
runtime::StepReport TieredEngine::try_step(std::span<const double> delta) {
  stepping_ = true;
  return steps_here().try_step(delta);
}

template <class Steps>
Steps* TieredEngine::steps(int what, Steps* (runtime::GradientSteps::*give)(bool)) {
  runtime::GradientSteps* const source = device_ ? device_->abilities().gradient_steps : nullptr;
  if (!source) return nullptr;
  Steps* found = nullptr;
  const bool there =
      ready(what, [&](Engine&) { return (found = (source->*give)(false)) != nullptr; });
  if (!there) return nullptr;
  stepping_ = false;
  move(true);
  return found;
}

runtime::FirstOrderSteps* TieredEngine::first_order_steps(bool) {
  return steps(kRules, &runtime::GradientSteps::first_order_steps);
}
runtime::DescentSteps* TieredEngine::descent_steps(bool) {
  return steps(kDescent, &runtime::GradientSteps::descent_steps);
}

}  // namespace topograd
