// Damped least-squares steps on the CPU.
#pragma once

#include "../engine/engine.hpp"
#include "cpu_system.hpp"

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace topograd::runtime::cpu {

/// A linear system in f32, of the same model.
struct NarrowSystem {
  NarrowSystem(const EngineOptions& options, Bits bits)
      : terms(options, bits), system(terms, options) {}

  void follow(const Model& model);
  void linearize(std::span<const double> point);
  std::vector<MemoryUse> memory() const;

  CpuTerms<float> terms;
  CpuSystem<float> system;
  Column<float> x;
  bool is_linear = false;  ///< at the current point of the steps
};

/// The current point and the trial point, and the steps between them. The linear system may be in
/// f32: point and gradient are narrowed for it, and its solution is added here.
template <class T>
class CpuSteps final : public DampedSteps, public StepLengths, public LastStep, public Guards {
 public:
  ///   terms  outlives the steps
  CpuSteps(CpuTerms<T>& terms, const EngineOptions& options)
      : terms_(terms), system_(terms, options) {
    if (options.narrow_system) narrow_ = std::make_unique<NarrowSystem>(options, terms.bits());
  }

  /// Follows the terms, which have other unknowns if `moved`.
  void follow(const Model& model, bool moved);
  void set_point(std::span<const double> x);
  void point(std::span<double> x) const;
  const Column<T>& x() const { return x_; }
  /// True if the system has rows and Jacobian of the current point.
  bool is_linear() const { return linear_; }
  /// The gradient at the current point; null if linearize() has not computed it, or only a part.
  const Column<T>* known_gradient() const;
  CpuSystem<T>& system() { return system_; }
  const CpuSystem<T>& system() const { return system_; }

  void begin_solve() override;
  void transfer(ir::StateRecord& record) override;
  PointReport linearize() override;
  StepReport try_step(const StepRequest& request) override;
  StepReport try_step(std::span<const double> delta) override;
  void trial_point(std::span<double> x) override;
  void accept() override;
  PreconditionerUse preconditioner() const override {
    return narrow_ ? narrow_->system.preconditioner() : system_.preconditioner();
  }
  NormalMatrixUse normal_matrix() const override {
    return {.why = {MatrixReason::stored_jacobian}};
  }
  StepReport rescale_step(double length) override { return finish_step(length); }
  void last_step(std::span<double> delta) override;

  std::uint64_t failed_guards() override { return terms_.failed_guards(); }
  std::vector<std::uint32_t> failed_instances(std::size_t term, At at) override {
    return terms_.failed_instances(term, at == At::point ? x_ : trial_);
  }
  double trial_cost() override;
  /// As Measurements::time_step().
  Timing time_step(int iterations, double damping, int samples);
  std::vector<MemoryUse> memory() const;
  /// Counts of the system in f32.
  EngineStats narrow_stats() const { return narrow_ ? narrow_->terms.stats() : EngineStats(); }

 private:
  /// Scalars that are fixed, or that a bound holds against this gradient.
  std::vector<std::uint8_t> held_at_bounds(const Column<T>& gradient) const;
  StepReport try_narrow_step(const StepRequest& request);
  /// The gradient as norms know it: by scalars of x, on manifolds x less x ⊞ −g.
  const Column<T>& gradient_moves();
  /// Sets the norms that do not depend on the unknowns' units.
  void add_scaled_norms(PointReport& report);
  /// Moves to x + length δ within the box and evaluates the cost there.
  StepReport finish_step(double length = 1);
  StepReport finish_step_on_manifolds();

  CpuTerms<T>& terms_;
  CpuSystem<T> system_;
  std::unique_ptr<NarrowSystem> narrow_;  // null: system_ solves for steps
  Column<T> x_, trial_;
  Column<T> moves_;  // scratch on manifolds
  T length_ = 1;     // of the last step
  bool linear_ = false, trial_ready_ = false;
  bool moved_ = false;  // trial_ is the point before the last accepted step
};

}  // namespace topograd::runtime::cpu
