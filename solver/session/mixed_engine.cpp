// An engine whose point is in f64 and whose linear system is in f32.
#include "mixed_engine.hpp"

#include "../../runtime/engine/narrow_solve.hpp"
#include "../../runtime/engine/step_gradient.hpp"
#include "../../runtime/rows/rows.hpp"

#include <utility>

namespace topograd {

MixedEngine::MixedEngine(std::unique_ptr<runtime::Engine> wide,
                         std::unique_ptr<runtime::Engine> narrow, const runtime::Model& model)
    : wide_(std::move(wide)),
      narrow_(std::move(narrow)),
      lower_(model.lower),
      upper_(model.upper),
      constant_(model.constant),
      x_(model.scalars),
      gradient_(model.scalars),
      delta_(model.scalars),
      joined_(join()) {}

bool MixedEngine::join() {
  runtime::NarrowSolve* const wide = wide_->abilities().narrow_solve;
  return wide != nullptr && wide->solve_by_narrow();
}

runtime::Abilities MixedEngine::abilities() {
  const runtime::Abilities wide = wide_->abilities();
  return {.steps = this,
          .step_lengths = wide.step_lengths,
          .elimination = narrow_->abilities().elimination,
          .gradient_steps = wide.gradient_steps,
          .second_derivatives = wide.second_derivatives,
          .several_values = wide.several_values,
          .asynchronous = wide.asynchronous ? this : nullptr,
          .guards = wide.guards,
          .kernels_ahead = this,
          .known_point = wide.known_point,
          .plans = wide.plans,
          .measurements = this};
}

std::unique_ptr<runtime::RowRunner> MixedEngine::row_runner() const { return wide_->row_runner(); }

runtime::EngineStats MixedEngine::stats() const {
  runtime::EngineStats sum = wide_->stats();
  return sum += narrow_->stats();
}

std::vector<runtime::MemoryUse> MixedEngine::memory() const {
  return runtime::together(wide_->abilities().measurements->memory(),
                           narrow_->abilities().measurements->memory());
}

bool MixedEngine::prepare_step() {
  const bool wide = runtime::prepare_step(*wide_);
  return runtime::prepare_step(*narrow_) && wide;  // both begin
}

void MixedEngine::refresh(const runtime::Model& model) {
  wide_->refresh(model);
  lower_ = model.lower;
  upper_ = model.upper;
  constant_ = model.constant;
  narrow_->refresh(model);
  joined_ = join();
  narrow_is_linear_ = false;
}

void MixedEngine::set_point(std::span<const double> x) {
  wide_->set_point(x);
  narrow_is_linear_ = false;
}

std::unique_ptr<runtime::Pending> MixedEngine::begin(runtime::Pass pass, std::span<const double> x,
                                                     std::span<const double> p,
                                                     std::span<double> out) {
  narrow_is_linear_ = false;
  return runtime::begin(*wide_, pass, x, p, out);
}

void MixedEngine::begin_solve() {
  steps_of(*wide_).begin_solve();
  steps_of(*narrow_).begin_solve();
}

void MixedEngine::transfer(ir::StateRecord& record) {
  steps_of(*wide_).transfer(record);
  steps_of(*narrow_).transfer(record);
}

runtime::PointReport MixedEngine::linearize() {
  narrow_is_linear_ = false;
  return steps_of(*wide_).linearize();
}

void MixedEngine::follow() {
  if (std::exchange(narrow_is_linear_, true)) return;
  wide_->point(x_);
  // Within a box the gradient of held scalars says what holds them.
  runtime::StepGradient* const shown = wide_->abilities().step_gradient;
  if (shown != nullptr && lower_.empty()) {
    shown->step_gradient(gradient_);
  } else {
    wide_->gradient(gradient_);
  }
  narrow_->set_point(x_);
  steps_of(*narrow_).linearize();
  runtime::LinearSystem& system = *narrow_->abilities().linear_system;
  if (!lower_.empty()) system.hold(held());
  system.set_gradient(gradient_);
}

std::vector<std::uint8_t> MixedEngine::held() const {
  std::vector<std::uint8_t> held = constant_;
  held.resize(x_.size(), 0);
  for (std::size_t k = 0; k < x_.size(); ++k) {
    if ((x_[k] <= lower_[k] && gradient_[k] > 0) || (x_[k] >= upper_[k] && gradient_[k] < 0))
      held[k] = 1;
  }
  return held;
}

runtime::StepReport MixedEngine::try_step(const runtime::StepRequest& request) {
  if (joined_) return steps_of(*wide_).try_step(request);
  follow();
  runtime::StepRequest narrow = request;
  narrow.rule.reset();  // its costs are not those that decide
  const runtime::StepReport solved = steps_of(*narrow_).try_step(narrow);
  narrow_->abilities().linear_system->last_step(delta_);
  runtime::StepReport report = try_step(std::span<const double>(delta_));
  report.model_decrease = solved.model_decrease;
  report.linear_iterations = solved.linear_iterations;
  report.linear_seconds = solved.linear_seconds;
  return report;
}

runtime::StepReport MixedEngine::try_step(std::span<const double> delta) {
  return steps_of(*wide_).try_step(delta);
}

void MixedEngine::accept() {
  steps_of(*wide_).accept();
  narrow_is_linear_ = false;
}

runtime::Timing MixedEngine::time(runtime::Pass pass, int warm_ups, int samples) {
  return wide_->abilities().measurements->time(pass, warm_ups, samples);
}

double MixedEngine::copy_rate() { return wide_->abilities().measurements->copy_rate(); }

runtime::Timing MixedEngine::time_step(int iterations, double damping, int samples) {
  wide_->point(x_);
  narrow_->set_point(x_);
  narrow_is_linear_ = false;
  return narrow_->abilities().measurements->time_step(iterations, damping, samples);
}

}  // namespace topograd
