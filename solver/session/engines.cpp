// The engines of a session, and tiered start-up.
#include "engines.hpp"

#include <utility>
#include <vector>

namespace topograd {
namespace {

using runtime::Engine;
using runtime::Need;
using runtime::Pass;

/// Evaluations of the engine inside for an engine around it: one value after the other, the cost
/// first, which tells whether there is a value.
std::vector<Need> needs_inside(Pass pass) {
  std::vector<Need> needs = {Need::evaluation(Pass::cost)};
  const bool several = pass == Pass::cost_gradient || pass == Pass::values;
  needs.push_back(Need::evaluation(several ? Pass::gradient : pass));
  if (pass == Pass::values) needs.push_back(Need::evaluation(Pass::residual));
  return needs;
}

}  // namespace

using runtime::Need;

bool StartUp::on_device(std::span<const Need> needs, const Ready& ready) {
  bool all = true;
  for (const Need& need : needs) {
    if (ready(need)) {
      missing_.erase(need);
    } else {
      missing_.insert(need);
      all = false;
    }
  }
  return all;
}

bool StartUp::steps_on_device(std::span<const Need> needs, const Ready& ready) {
  std::vector<Need> all(needs.begin(), needs.end());
  for (const Need& need : missing_)
    if (need.of == Need::Of::evaluation) all.push_back(need);
  return on_device(all, ready);
}

Engines::Engines(std::unique_ptr<Engine> only)
    : owned_(std::move(only)), chosen_(owned_.get()), serving_(chosen_) {}

Engines::Engines(std::size_t scalars, std::unique_ptr<Engine> device, Make make_interpreter,
                 std::function<bool(const Error&)> is_device_error)
    : owned_(std::move(device)),
      interpreter_(make_interpreter()),
      chosen_(owned_.get()),
      serving_(interpreter_.get()),
      make_interpreter_(std::move(make_interpreter)),
      is_device_error_(std::move(is_device_error)),
      x_(scalars) {}

std::vector<Engine*> Engines::all() const {
  if (interpreter_ == nullptr || chosen_ == interpreter_.get()) return {chosen_};
  return {interpreter_.get(), chosen_};
}

void Engines::let_go(const Error& error) {
  failure_ = error.what();
  earlier_ += owned_->stats();
  earlier_.device_bytes = 0;  // they go with it
  chosen_ = interpreter_.get();
  owned_ = nullptr;
}

StartUp::Ready Engines::ready() {
  return [this](const Need& need) {
    if (owned_ == nullptr) return false;
    try {
      return runtime::prepare(*owned_, need);
    } catch (const Error& error) {
      if (serving_ == owned_.get() || !is_device_error_(error)) throw;
      let_go(error);
      return false;
    }
  };
}

Engine& Engines::serve(bool on_device, bool keeps_point) {
  if (!on_device && interpreter_ == nullptr) interpreter_ = make_interpreter_();
  Engine* const next = on_device ? chosen_ : interpreter_.get();
  if (next == serving_) return here();
  if (keeps_point) {
    serving_->point(x_);
    next->set_point(x_);
  }
  serving_ = next;
  if (!outer_.empty()) outer_.front()->move_to(*serving_);
  if (on_device && !start_up_.waits()) {
    earlier_ += interpreter_->stats();
    interpreter_ = nullptr;
  }
  return here();
}

Engine& Engines::for_evaluation(Pass pass) {
  if (!make_interpreter_) return here();
  const std::vector<Need> needs =
      outer_.empty() ? std::vector{Need::evaluation(pass)} : needs_inside(pass);
  return serve(start_up_.on_device(needs, ready()), false);
}

Engine& Engines::at(Pass pass, std::span<const double> x) {
  Engine& engine = for_evaluation(pass);
  engine.set_point(x);
  return engine;
}

Engine& Engines::for_steps(std::span<const Need> needs) {
  if (!make_interpreter_) return here();
  std::vector<Need> all(needs.begin(), needs.end());
  if (!outer_.empty()) all.push_back(Need::evaluation(Pass::cost));
  return serve(start_up_.steps_on_device(all, ready()), true);
}

template <class Steps>
Steps* Engines::gradient_steps(Need::Of of, bool wait,
                               Steps* (runtime::GradientSteps::*give)(bool)) {
  runtime::GradientSteps* const source =
      outer_.empty() ? chosen_->abilities().gradient_steps : nullptr;
  if (source == nullptr) return nullptr;
  if (!make_interpreter_) return (source->*give)(wait);
  const Need need{.of = of};
  if (!start_up_.on_device(std::span(&need, 1), ready())) return nullptr;
  serve(true, false);
  return (source->*give)(false);
}

runtime::FirstOrderSteps* Engines::first_order_steps(bool wait) {
  return gradient_steps(Need::Of::first_order_step, wait,
                        &runtime::GradientSteps::first_order_steps);
}
runtime::DescentSteps* Engines::descent_steps(bool wait) {
  return gradient_steps(Need::Of::descent_step, wait, &runtime::GradientSteps::descent_steps);
}

bool Engines::prepare(const Need& need) {
  if (!make_interpreter_) return runtime::prepare(*chosen_, need);
  return start_up_.on_device(std::span(&need, 1), ready()) || owned_ == nullptr;
}

void Engines::put_around(std::unique_ptr<runtime::OuterEngine> outer) {
  outer_.push_back(std::move(outer));
}

void Engines::refresh(const runtime::Model& model) {
  for (Engine* const engine : all()) (engine == serving_ ? here() : *engine).refresh(model);
}

void Engines::refresh_inside(const runtime::Model& model) {
  for (Engine* const engine : all()) engine->refresh(model);
}

void Engines::begin_solve() {
  for (Engine* const engine : all())
    (engine == serving_ ? here() : *engine).abilities().steps->begin_solve();
}

runtime::EngineStats Engines::stats() const {
  runtime::EngineStats sum = earlier_;
  for (const Engine* const engine : all()) sum += engine->stats();
  return sum;
}

std::string Engines::reason(const std::string& why) const {
  if (!failure_.empty()) return "cpu: the device could not make its kernels: " + failure_;
  if (starting()) return "cpu: serves until the device's kernels are compiled (" + why + ")";
  if (!make_interpreter_ || stats().kernels_on_cpu == 0) return why;
  return why + "; the interpreter served until the kernels were compiled";
}

}  // namespace topograd
