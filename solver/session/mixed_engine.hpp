// An engine whose point is in f64 and whose linear system is in f32.
#pragma once

#include "../../runtime/engine/forwarding_engine.hpp"

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace topograd {

/// Point, residuals, cost and gradient are one engine's, in f64; damped systems are solved by
/// another one's conjugate gradients in f32, on its JᵀJ and the f64 gradient, and the step is added
/// in f64. So the solve ends where an f64 solve does, and its iterations move half the bytes.
///
/// On one device the two hand each other point, gradient and step there
/// (runtime/engine/narrow_solve.hpp); else they go through the host once a step. On manifolds the
/// gradient is in the tangent coordinates of f64, those of f32 differ from them by rounding alone.
class MixedEngine final : public runtime::ForwardingEngine {
 public:
  /// Both engines hold the same model, `wide` in f64 and `narrow` in f32.
  MixedEngine(std::unique_ptr<runtime::Engine> wide, std::unique_ptr<runtime::Engine> narrow,
              const runtime::Model& model);

  /// Steps along gradients are in f64; what is eliminated is of the system in f32.
  runtime::Abilities abilities() override {
    return {.gradient_steps = wide_->abilities().gradient_steps,
            .elimination = narrow_->abilities().elimination};
  }
  runtime::EngineStats stats() const override;
  bool prepare_step() override;
  void refresh(const runtime::Model& model) override;

  void set_point(std::span<const double> x) override;
  std::unique_ptr<runtime::Pending> begin(runtime::KernelKind kind, std::span<const double> x,
                                          std::span<const double> p,
                                          std::span<double> out) override;

  void begin_solve() override;
  runtime::PointReport linearize() override;
  runtime::StepReport try_step(const runtime::StepRequest& request) override;
  using ForwardingEngine::try_step;
  runtime::PreconditionerUse preconditioner() const override { return narrow_->preconditioner(); }
  runtime::NormalMatrixUse normal_matrix() const override { return narrow_->normal_matrix(); }
  void set_gradient(std::span<const double> g) override;
  void accept() override;

  /// Of the system in f32.
  runtime::Timing time_step(int iterations, double damping, int samples) override;
  std::vector<runtime::MemoryUse> memory() const override;

 private:
  runtime::Engine& target() const override { return *wide_; }
  /// Whether the two do without the host.
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
