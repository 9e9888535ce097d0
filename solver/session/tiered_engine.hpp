// An engine that starts on the interpreter and goes on on a device once its kernels are there.
#pragma once

#include "../../ir/error.hpp"
#include "../../runtime/engine/engine.hpp"
#include "../../runtime/engine/first_order.hpp"

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace topograd {

/// Evaluates on the interpreter until the device's kernels for what is asked have been made in the
/// background, and on the device from the next evaluation, or the next linearisation of a solve,
/// on. No call waits for a compiler. A device that cannot make its kernels is let go of.
class TieredEngine final : public runtime::Engine,
                           public runtime::DampedSteps,
                           public runtime::SecondDerivatives,
                           public runtime::SeveralValues,
                           public runtime::AsynchronousEvaluations,
                           public runtime::KernelsAhead,
                           public runtime::Plans,
                           public runtime::GradientSteps {
 public:
  using Make = std::function<std::unique_ptr<runtime::Engine>()>;

  ///   device           of the same model as what make_cpu makes
  ///   make_cpu         called when the interpreter is needed, of the model as it is then
  ///   is_device_error  what means that the device is of no use, asked once; other errors are
  ///                    thrown on
  TieredEngine(std::unique_ptr<runtime::Engine> device, Make make_cpu,
               std::function<bool(const Error&)> is_device_error);

  /// Why it runs where it does, one line, given why the device was chosen.
  std::string reason(const std::string& why) const;

  /// Eliminations are the device's: the interpreter's steps have another solver.
  runtime::Abilities abilities() override;
  runtime::Backend backend() const override { return current().backend(); }
  std::string device() const override { return current().device(); }
  runtime::EngineStats stats() const override;
  std::unique_ptr<runtime::RowRunner> row_runner() const override;
  void refresh(const runtime::Model& model) override;

  std::string accumulation() const override;
  runtime::PlanRecord plan() const override;
  /// Prepares the device, as long as there is one.
  bool prepare(runtime::Pass pass) override;
  bool prepare_step() override;

  void set_point(std::span<const double> x) override;
  void point(std::span<double> x) override { current().point(x); }
  double cost() override;
  void residuals(std::span<double> out) override;
  void gradient(std::span<double> out) override;
  void evaluate(const runtime::Values& wanted) override;
  void jacobian(std::size_t term, std::span<double> values) override;
  void jvp(std::span<const double> p, std::span<double> out) override;
  void vjp(std::span<const double> seeds, std::span<double> out) override;
  void jtjp(std::span<const double> p, std::span<double> out) override;
  std::unique_ptr<runtime::Pending> begin(runtime::Pass pass, std::span<const double> x,
                                          std::span<const double> p,
                                          std::span<double> out) override;
  void hvp(std::span<const double> p, std::span<double> out) override;
  void hessian(std::size_t term, bool project, std::span<double> values) override;

  void begin_solve() override;
  void transfer(ir::StateRecord& record) override { steps_here().transfer(record); }
  runtime::PointReport linearize() override;
  runtime::StepReport try_step(const runtime::StepRequest& request) override;
  runtime::StepReport try_step(std::span<const double> delta) override;
  void trial_point(std::span<double> x) override { steps_here().trial_point(x); }
  void accept() override { steps_here().accept(); }
  runtime::PreconditionerUse preconditioner() const override {
    return steps_here().preconditioner();
  }
  runtime::NormalMatrixUse normal_matrix() const override { return steps_here().normal_matrix(); }

  /// Those of the device, once their kernels are there, whatever `wait` says.
  runtime::FirstOrderSteps* first_order_steps(bool wait) override;
  runtime::DescentSteps* descent_steps(bool wait) override;

 private:
  runtime::Engine& current() const { return on_device_ ? *device_ : *cpu_; }
  runtime::DampedSteps& steps_here() const { return *current().abilities().steps; }
  /// The engine that serves an evaluation of this kind, at the current point.
  runtime::Engine& serve(runtime::Pass pass);
  runtime::Engine& move(bool to_device);
  template <class Prepare>
  bool ready(int what, const Prepare& prepare);
  template <class Steps>
  Steps* steps(int what, Steps* (runtime::GradientSteps::*give)(bool));
  void make_cpu();
  void drop_cpu();

  std::unique_ptr<runtime::Engine> device_, cpu_;
  Make make_cpu_;
  std::function<bool(const Error&)> is_device_error_;
  bool on_device_ = false;  // has the current point, and the trial point
  bool stepping_ = false;   // between a linearisation and the next point: no change of place
  std::set<int> waiting_;   // for these kinds
  std::vector<double> x_;
  runtime::EngineStats before_;  // of interpreters that are gone
  std::string failure_;
};

}  // namespace topograd
