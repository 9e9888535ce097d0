// Damped least-squares steps on the CPU.
#pragma once

#include "../engine/engine.hpp"
#include "cpu_system.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace topograd::runtime::cpu {

/// The current point and the trial point, and the steps between them.
template <class T>
class CpuSteps final : public DampedSteps, public StepLengths, public LinearSystem {
 public:
  ///   terms  outlives the steps
  CpuSteps(CpuTerms<T>& terms, const EngineOptions& options)
      : terms_(terms), system_(terms, options.preconditioner) {}

  /// Follows the terms, which have other unknowns if `moved`.
  void follow(const Model& model, bool moved);
  void set_point(std::span<const double> x);
  void point(std::span<double> x) const;
  const Column<T>& x() const { return x_; }
  const Column<T>& trial() const { return trial_; }
  CpuSystem<T>& system() { return system_; }
  const CpuSystem<T>& system() const { return system_; }

  void begin_solve() override { system_.begin_solve(); }
  void transfer(ir::StateRecord& record) override { system_.transfer(record); }
  PointReport linearize() override;
  StepReport try_step(const StepRequest& request) override;
  StepReport try_step(std::span<const double> delta) override;
  void trial_point(std::span<double> x) override;
  void accept() override;
  PreconditionerUse preconditioner() const override { return system_.preconditioner(); }
  NormalMatrixUse normal_matrix() const override {
    return {.why = {MatrixReason::stored_jacobian}};
  }
  StepReport rescale_step(double length) override { return finish_step(length); }
  void set_gradient(std::span<const double> g) override;
  void hold(std::span<const std::uint8_t> held) override;
  void last_step(std::span<double> delta) override;

  /// As Guards::trial_cost().
  double trial_cost();
  /// As Measurements::time_step().
  Timing time_step(int iterations, double damping, int samples);
  std::vector<MemoryUse> memory() const;

 private:
  bool bounded() const { return !terms_.box().empty(); }
  /// The gradient's entry, or the part of it that the box leaves free.
  T projected_gradient(std::size_t i) const;
  void hold_at_bounds();
  void ensure_linear() {
    if (!linear_) linearize();
  }
  /// Sets the norms that do not depend on the unknowns' units.
  void add_scaled_norms(PointReport& report);
  /// Moves to x + length δ and evaluates the cost there.
  StepReport finish_step(double length = 1);

  CpuTerms<T>& terms_;
  CpuSystem<T> system_;
  Column<T> x_, trial_;
  bool linear_ = false, trial_ready_ = false;
  bool moved_ = false;  // trial_ is the point before the last accepted step
};

}  // namespace topograd::runtime::cpu
