// The engine that make_cpu_engine() makes.
#pragma once

#include "../engine/engine.hpp"
#include "copy_rate.hpp"
#include "cpu_steps.hpp"
#include "interpreter/rows.hpp"

#include <functional>
#include <memory>
#include <vector>

namespace topograd::runtime::cpu {

/// Evaluates at its point; steps are those of CpuSteps.
template <class T>
class CpuEngine final : public Engine,
                        public SecondDerivatives,
                        public SeveralValues,
                        public KnownPoint,
                        public Plans,
                        public Measurements {
 public:
  CpuEngine(const Model& model, const EngineOptions& options, Bits bits);

  Abilities abilities() override {
    return {.steps = &steps_,
            .step_lengths = &steps_,
            .last_step = &steps_,
            .second_derivatives = this,
            .several_values = this,
            .guards = &steps_,
            .known_point = this,
            .plans = this,
            .measurements = this};
  }
  Backend backend() const override { return Backend::cpu; }
  std::string device() const override;
  EngineStats stats() const override {
    EngineStats stats = terms_.stats();
    return stats += steps_.narrow_stats();
  }
  std::string accumulation() const override;
  PlanRecord plan() const override;
  std::unique_ptr<RowRunner> row_runner() const override {
    return make_row_runner(sizeof(T) == sizeof(float) ? Precision::f32 : Precision::f64,
                           terms_.bits());
  }
  void refresh(const Model& model) override;

  void set_point(std::span<const double> x) override { steps_.set_point(x); }
  void point(std::span<double> x) override { steps_.point(x); }
  bool last_known_point(std::span<double> x) override;
  double cost() override { return terms_.cost(steps_.x()); }
  void residuals(std::span<double> out) override;
  void gradient(std::span<double> out) override;
  void evaluate(const Values& wanted) override;
  void jacobian(std::size_t term, std::span<double> values) override;
  void jvp(std::span<const double> p, std::span<double> out) override;
  void vjp(std::span<const double> seeds, std::span<double> out) override;
  void jtjp(std::span<const double> p, std::span<double> out) override {
    sum_along(Part::Jtjp, p, out);
  }
  void hvp(std::span<const double> p, std::span<double> out) override {
    sum_along(Part::Hvp, p, out);
  }
  void hessian(std::size_t term, bool project, std::span<double> values) override;

  Timing time(Pass pass, int warm_ups, int samples) override;
  Timing time_step(int iterations, double damping, int samples) override {
    return steps_.time_step(iterations, damping, samples);
  }
  double copy_rate() override { return cpu::copy_rate(terms_.pool()); }
  std::vector<MemoryUse> memory() const override;

 private:
  /// Sums a part along p into `out`.
  void sum_along(Part part, std::span<const double> p, std::span<double> out);
  /// The work that time() measures, with all data resident.
  std::function<void()> work_of(Pass pass);

  bool other_strategy_asked_ = false;
  CpuTerms<T> terms_;
  CpuSteps<T> steps_;
  Column<T> direction_, sums_;
};

}  // namespace topograd::runtime::cpu
