// An engine whose point is in f64 and whose linear system is in f32.
#pragma once

#include "../../runtime/engine/engine.hpp"

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace topograd {

/// Point, residuals, cost and gradient are one engine's, in f64; damped systems are solved by
/// another one's conjugate gradients in f32, on its JᵀJ and the f64 gradient, and the step is added
/// in f64. So the solve ends where an f64 solve does, and its iterations move half the bytes.
///
/// On one device the two hand each other point, gradient and step there
/// (runtime/engine/narrow_solve.hpp); else they go through the host once a step. On manifolds the
/// gradient is in the tangent coordinates of f64, those of f32 differ from them by rounding alone.
class MixedEngine final : public runtime::Engine,
                          public runtime::DampedSteps,
                          public runtime::AsynchronousEvaluations,
                          public runtime::KernelsAhead,
                          public runtime::Measurements {
 public:
  /// Both engines hold the same model, `wide` in f64 and `narrow` in f32.
  MixedEngine(std::unique_ptr<runtime::Engine> wide, std::unique_ptr<runtime::Engine> narrow,
              const runtime::Model& model);

  runtime::Abilities abilities() override;
  runtime::Backend backend() const override { return wide_->backend(); }
  std::string device() const override { return wide_->device(); }
  runtime::EngineStats stats() const override;
  std::unique_ptr<runtime::RowRunner> row_runner() const override;
  void refresh(const runtime::Model& model) override;

  void set_point(std::span<const double> x) override;
  void point(std::span<double> x) override { wide_->point(x); }
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

  std::unique_ptr<runtime::Pending> begin(runtime::Pass pass, std::span<const double> x,
                                          std::span<const double> p,
                                          std::span<double> out) override;
  bool prepare(runtime::Pass pass) override { return runtime::prepare(*wide_, pass); }
  bool prepare_step() override;

  void begin_solve() override;
  void transfer(ir::StateRecord& record) override;
  runtime::PointReport linearize() override;
  runtime::StepReport try_step(const runtime::StepRequest& request) override;
  runtime::StepReport try_step(std::span<const double> delta) override;
  void trial_point(std::span<double> x) override { steps_of(*wide_).trial_point(x); }
  void accept() override;
  runtime::PreconditionerUse preconditioner() const override {
    return steps_of(*narrow_).preconditioner();
  }
  runtime::NormalMatrixUse normal_matrix() const override {
    return steps_of(*narrow_).normal_matrix();
  }

  runtime::Timing time(runtime::Pass pass, int warm_ups, int samples) override;
  /// Time of a step of the system in f32.
  runtime::Timing time_step(int iterations, double damping, int samples) override;
  double copy_rate() override;
  std::vector<runtime::MemoryUse> memory() const override;

 private:
  static runtime::DampedSteps& steps_of(runtime::Engine& engine) {
    return *engine.abilities().steps;
  }
  /// Lets the f64 engine solve by the f32 one without the host; true if it can.
  bool join();
  /// Brings the f32 engine to the point, if it is not there.
  void follow();
  /// The scalars on a bound that the f64 gradient holds them to: in f32 a point may seem to be on
  /// one that it is not on.
  std::vector<std::uint8_t> held() const;

  std::unique_ptr<runtime::Engine> wide_, narrow_;
  std::vector<double> lower_, upper_;  // of the model
  std::vector<std::uint8_t> constant_;
  std::vector<double> x_, gradient_, delta_;
  bool joined_ = false, narrow_is_linear_ = false;
};

}  // namespace topograd
