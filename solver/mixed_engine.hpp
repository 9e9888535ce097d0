// An engine whose point is in f64 and whose linear system is in f32.
#pragma once

#include <topograd/runtime/engine.hpp>
#include <topograd/runtime/rows.hpp>

#include <memory>
#include <string>
#include <vector>

namespace topograd {

/// Point, residuals, cost and gradient are one engine's, in f64; damped systems are solved by
/// another one's conjugate gradients in f32, on its JᵀJ and the f64 gradient, and the step is added
/// in f64. So the solve ends where an f64 solve does, and its iterations move half the bytes.
///
/// Point and gradient go to the f32 engine, and its step comes back, through the host once a step.
class MixedEngine final : public runtime::Engine {
 public:
  /// Both engines hold the same model, `wide` in f64 and `narrow` in f32.
  MixedEngine(std::unique_ptr<runtime::Engine> wide, std::unique_ptr<runtime::Engine> narrow,
              const runtime::Model& model);

  std::string backend() const override { return wide_->backend(); }
  std::string device() const override { return wide_->device(); }
  runtime::EngineStats stats() const override;
  std::string accumulation() const override { return wide_->accumulation(); }
  runtime::PlanRecord plan() const override { return wide_->plan(); }
  bool prepare(runtime::KernelKind kind) override { return wide_->prepare(kind); }
  bool prepare_step() override {
    const bool wide = wide_->prepare_step();
    return narrow_->prepare_step() && wide;  // both begin
  }
  std::unique_ptr<runtime::RowRunner> row_runner() const override { return wide_->row_runner(); }
  void refresh(const runtime::Model& model) override;

  void set_point(std::span<const double> x) override;
  void point(std::span<double> x) override { wide_->point(x); }
  bool last_known_point(std::span<double> x) override { return wide_->last_known_point(x); }
  double cost() override { return wide_->cost(); }
  void residuals(std::span<double> out) override { wide_->residuals(out); }
  void gradient(std::span<double> out) override { wide_->gradient(out); }
  void jacobian(std::size_t term, std::span<double> values) override {
    wide_->jacobian(term, values);
  }
  void jvp(std::span<const double> p, std::span<double> out) override { wide_->jvp(p, out); }
  void vjp(std::span<const double> seeds, std::span<double> out) override {
    wide_->vjp(seeds, out);
  }
  void jtjp(std::span<const double> p, std::span<double> out) override { wide_->jtjp(p, out); }
  void hvp(std::span<const double> p, std::span<double> out) override { wide_->hvp(p, out); }
  void hessian(std::size_t term, bool project, std::span<double> values) override {
    wide_->hessian(term, project, values);
  }

  std::uint64_t failed_guards() override { return wide_->failed_guards(); }
  std::vector<std::uint32_t> failed_instances(std::size_t term, At at) override {
    return wide_->failed_instances(term, at);
  }
  double trial_cost() override { return wide_->trial_cost(); }

  runtime::PointReport linearize() override;
  runtime::StepReport try_step(const runtime::StepRequest& request) override;
  runtime::StepReport try_step(std::span<const double> delta) override {
    return wide_->try_step(delta);
  }
  bool can_rescale_step() const override { return wide_->can_rescale_step(); }
  runtime::StepReport rescale_step(double length) override { return wide_->rescale_step(length); }
  void trial_point(std::span<double> x) override { wide_->trial_point(x); }
  void accept() override { wide_->accept(); }

  runtime::Timing time(runtime::KernelKind kind, int warm_ups, int samples) override {
    return wide_->time(kind, warm_ups, samples);
  }
  /// Of the system in f32.
  runtime::Timing time_step(int iterations, double damping, int samples) override;

 private:
  /// Brings the f32 engine to the point, if it is not there.
  void follow();

  std::unique_ptr<runtime::Engine> wide_, narrow_;
  std::vector<double> x_, gradient_, delta_;
  bool narrow_is_linear_ = false;
};

}  // namespace topograd
