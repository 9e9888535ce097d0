// The base of engines that are another engine with something added.
#pragma once

#include "../rows/rows.hpp"
#include "engine.hpp"

#include <memory>
#include <span>
#include <string>
#include <vector>

namespace topograd::runtime {

/// Hands every call to target(), those with a default in Engine included: an engine that is derived
/// from it overrides what differs, and calls Engine's own where the default is what it needs. A
/// test compares the declarations with Engine's.
class ForwardingEngine : public Engine {
 public:
  /// Each says which it passes on.
  Abilities abilities() override = 0;
  Backend backend() const override;
  std::string device() const override;
  EngineStats stats() const override;
  std::string accumulation() const override;
  PlanRecord plan() const override;
  bool prepare(KernelKind kind) override;
  bool prepare_step() override;
  std::unique_ptr<RowRunner> row_runner() const override;
  void refresh(const Model& model) override;

  void set_point(std::span<const double> x) override;
  void point(std::span<double> x) override;
  bool last_known_point(std::span<double> x) override;
  std::uint64_t steps_after_known_point() const override;
  double cost() override;
  void residuals(std::span<double> out) override;
  void gradient(std::span<double> out) override;
  void evaluate(const Values& wanted) override;
  void jacobian(std::size_t term, std::span<double> values) override;
  void jvp(std::span<const double> p, std::span<double> out) override;
  void vjp(std::span<const double> seeds, std::span<double> out) override;
  void jtjp(std::span<const double> p, std::span<double> out) override;
  std::unique_ptr<Pending> begin(KernelKind kind, std::span<const double> x,
                                 std::span<const double> p, std::span<double> out) override;
  bool runs_asynchronously() const override;
  void hvp(std::span<const double> p, std::span<double> out) override;
  void hessian(std::size_t term, bool project, std::span<double> values) override;

  std::uint64_t failed_guards() override;
  std::vector<std::uint32_t> failed_instances(std::size_t term, At at) override;
  double trial_cost() override;

  void begin_solve() override;
  PointReport linearize() override;
  StepReport try_step(const StepRequest& request) override;
  StepReport try_step(std::span<const double> delta) override;
  PreconditionerUse preconditioner() const override;
  NormalMatrixUse normal_matrix() const override;
  void trial_point(std::span<double> x) override;
  void set_gradient(std::span<const double> g) override;
  void hold(std::span<const std::uint8_t> held) override;
  void last_step(std::span<double> delta) override;
  bool can_rescale_step() const override;
  StepReport rescale_step(double length) override;
  void accept() override;

  Timing time(KernelKind kind, int warm_ups, int samples) override;
  Timing time_step(int iterations, double damping, int samples) override;
  double copy_rate() override;
  std::vector<MemoryUse> memory() const override;

 protected:
  /// Who serves a call that is not overridden.
  virtual Engine& target() const = 0;
};

}  // namespace topograd::runtime
