// The engine that make_cpu_engine() makes.
#pragma once

#include "../engine/engine.hpp"
#include "copy_rate.hpp"
#include "interpreter/rows.hpp"
#include "linear/conjugate_gradients.hpp"
#include "linear/step_preconditioner.hpp"
#include "terms/term.hpp"

#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

namespace topograd::runtime::cpu {

template <class T>
class CpuEngine final : public Engine,
                        public DampedSteps,
                        public StepLengths,
                        public LinearSystem,
                        public SecondDerivatives,
                        public SeveralValues,
                        public Guards,
                        public KnownPoint,
                        public Plans,
                        public Measurements {
 public:
  CpuEngine(const Model& model, const EngineOptions& options);

  Abilities abilities() override {
    return {.steps = this,
            .step_lengths = this,
            .linear_system = this,
            .second_derivatives = this,
            .several_values = this,
            .guards = this,
            .known_point = this,
            .plans = this,
            .measurements = this};
  }
  Backend backend() const override { return Backend::cpu; }
  std::string device() const override;
  EngineStats stats() const override { return stats_; }
  std::string accumulation() const override;
  PlanRecord plan() const override;
  std::unique_ptr<RowRunner> row_runner() const override {
    return make_row_runner(sizeof(T) == sizeof(float) ? Precision::f32 : Precision::f64);
  }
  void refresh(const Model& model) override;

  void set_point(std::span<const double> x) override;
  void begin_solve() override {
    scaled_ = false;
    preconditioner_->begin_solve();
  }
  void transfer(ir::StateRecord& record) override;
  void point(std::span<double> x) override;
  bool last_known_point(std::span<double> x) override;
  double cost() override { return cost_at(x_); }
  void residuals(std::span<double> out) override;
  void gradient(std::span<double> out) override;
  void evaluate(const Values& wanted) override;
  void jacobian(std::size_t term, std::span<double> values) override;
  void jvp(std::span<const double> p, std::span<double> out) override;
  void vjp(std::span<const double> seeds, std::span<double> out) override;
  void jtjp(std::span<const double> p, std::span<double> out) override;
  void hvp(std::span<const double> p, std::span<double> out) override;
  void hessian(std::size_t term, bool project, std::span<double> values) override;

  std::uint64_t failed_guards() override { return failed_guards_; }
  std::vector<std::uint32_t> failed_instances(std::size_t term, At at) override;
  void trial_point(std::span<double> x) override;
  double trial_cost() override;

  PointReport linearize() override;
  StepReport try_step(const StepRequest& request) override;
  StepReport try_step(std::span<const double> delta) override;
  PreconditionerUse preconditioner() const override { return preconditioner_->use(); }
  NormalMatrixUse normal_matrix() const override {
    return {.why = {MatrixReason::stored_jacobian}};
  }
  void set_gradient(std::span<const double> g) override;
  void hold(std::span<const std::uint8_t> held) override;
  void last_step(std::span<double> delta) override;
  StepReport rescale_step(double length) override;
  void accept() override;

  Timing time(Pass pass, int warm_ups, int samples) override;
  Timing time_step(int iterations, double damping, int samples) override;
  double copy_rate() override { return cpu::copy_rate(pool_); }
  std::vector<MemoryUse> memory() const override;

 private:
  using Terms = std::vector<std::unique_ptr<TermState<T>>>;

  void resize(std::uint64_t scalars);
  void rebuild_terms(const Model& model, bool all);
  Vectors<T> vectors(const Column<T>& x, const Column<T>* p = nullptr) const;

  // Evaluations into the engine's own vectors; counted.
  double cost_at(const Column<T>& x);
  /// Evaluates cost, gradient, and rows unless they are empty, in one sweep.
  double evaluate_at(const Column<T>& x, std::span<double> rows, Column<T>& gradient);
  void count_failed_guards(const Column<T>& x);
  void rows_of(Part part, const Vectors<T>& v, std::span<double> out);
  void sum_terms(Part part, const Vectors<T>& v, Column<T>& out);
  void zero(Column<T>& v);
  void mask(Column<T>& v) { mask(v, constant_); }
  void mask(Column<T>& v, const std::vector<std::uint8_t>& held);
  void read(std::span<const double> in, Column<T>& v);
  void write(const Column<T>& v, std::span<double> out);
  void check_size(const char* call, const char* what, std::size_t expected, std::size_t got) const;

  // The linearisation at x_.
  void ensure_linear();
  void evaluate_jacobian();
  void sum_linear_gradient();
  void sum_linear_blocks();
  void set_damping(const StepRequest& request);
  void set_scale(const StepRequest& request);
  /// Sets the norms that do not depend on the unknowns' units.
  void add_scaled_norms(PointReport& report);
  template <class Damping>
  double multiply(const Damping& damping, const T* p, T* q);
  /// Computes δ by conjugate gradients; returns the iterations.
  int solve_step(const StepRequest& request);
  int iterate(LinearOperator<T>& matrix, HostPreconditioner<T>& preconditioner,
              const CgOptions& options);
  StepReport finish_step(double length = 1);
  double gradient_times_step();

  // Steps within bounds.
  bool bounded() const { return !lower_.empty(); }
  /// Scalars that take no part in steps; empty: none.
  const std::vector<std::uint8_t>& held() const { return bounded() ? held_ : constant_; }
  /// The gradient's entry, or the part of it that the box leaves free.
  T projected_gradient(std::size_t i) const;
  void hold_at_bounds();
  void keep_in_box(std::span<double> x) const;

  // The work that time() measures, with all data resident.
  std::function<void()> work_of(Pass pass);

  BlockLayout layout_;
  bool other_strategy_asked_ = false;
  std::uint64_t scalars_ = 0, rows_ = 0;
  std::vector<ParameterArray> arrays_;
  std::vector<std::uint8_t> constant_;
  std::vector<double> lower_, upper_;
  std::vector<std::uint8_t> held_;  // at the linearisation, if there are bounds
  Pool pool_;
  Workers<T> workers_;
  Terms terms_;
  /// By topology and loss, including removed terms, whose instances may return.
  std::map<std::pair<const ir::Topology*, const ir::Program*>,
           std::shared_ptr<typename TermState<T>::Kernels>>
      kernels_;
  Column<T> uniforms_;
  EngineStats stats_;

  Column<T> x_, trial_, gradient_, delta_, direction_, sums_;
  Column<T> blocks_;  // packed diagonal blocks of JᵀJ
  // Squares of the Jacobi scaling, from the linearisation of the first step; 0: no clamps.
  Column<T> scale_;
  Column<T> damping_;  // added to the diagonal
  std::uint64_t failed_guards_ = 0;
  std::unique_ptr<StepPreconditioner<T>> preconditioner_;
  CgVectors<T> cg_;
  bool linear_ = false, scaled_ = false, trial_ready_ = false;
  bool moved_ = false;  // trial_ is the point before the last accepted step
};

}  // namespace topograd::runtime::cpu
