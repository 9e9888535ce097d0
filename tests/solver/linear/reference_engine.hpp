// An engine made of the scalar evaluator and dense loops: slow, simple, and independent of the
// backends.
#pragma once

#include "../../../runtime/cpu/interpreter/interpreter.hpp"
#include "../../../runtime/engine/engine.hpp"

#include <span>
#include <string>
#include <vector>

namespace topograd::test {

/// Evaluates each instance with ir::evaluate, stores J by rows, and solves by textbook conjugate
/// gradients with point-block Jacobi. Double precision, one thread. The model must outlive it.
class ReferenceEngine : public runtime::Engine, public runtime::DampedSteps {
 public:
  explicit ReferenceEngine(const runtime::Model& model);

  runtime::Backend backend() const override { return runtime::Backend::cpu; }
  std::string device() const override { return "scalar evaluator"; }
  runtime::EngineStats stats() const override { return {}; }
  runtime::Abilities abilities() override { return {.steps = this}; }
  std::unique_ptr<runtime::RowRunner> row_runner() const override {
    return runtime::cpu::make_row_runner(runtime::Precision::f64);
  }
  void refresh(const runtime::Model& model) override { model_ = &model; }
  void set_point(std::span<const double> x) override;
  void point(std::span<double> x) override;
  double cost() override { return cost_at(x_); }
  void residuals(std::span<double> out) override;
  void gradient(std::span<double> out) override;
  void jacobian(std::size_t term, std::span<double> values) override;
  void jvp(std::span<const double> p, std::span<double> out) override;
  void vjp(std::span<const double> seeds, std::span<double> out) override;
  void jtjp(std::span<const double> p, std::span<double> out) override;
  runtime::PointReport linearize() override;
  runtime::StepReport try_step(const runtime::StepRequest& request) override;
  runtime::StepReport try_step(std::span<const double> delta) override;
  void trial_point(std::span<double> x) override;
  void accept() override { x_ = trial_; }

 private:
  struct Entry {
    std::uint32_t column;
    double value;
  };
  using Vector = std::vector<double>;
  using Block = std::vector<Vector>;

  double cost_at(const Vector& x) const;
  void evaluate_term(std::size_t term, const Vector& x, bool derivatives, Vector& r,
                     Vector& j) const;
  void build_jacobian();
  Vector damping(const runtime::StepRequest& request) const;
  std::vector<Block> diagonal_blocks(const Vector& extra) const;
  int conjugate_gradients(const runtime::StepRequest& request, Vector& delta) const;
  Vector apply(const Vector& p) const;             // J p
  Vector apply_transposed(const Vector& s) const;  // Jᵀ s
  bool constant(std::uint32_t k) const { return !model_->constant.empty() && model_->constant[k]; }

  const runtime::Model* model_;
  Vector x_, trial_, residual_, gradient_, diagonal_, scale_;
  std::vector<std::size_t> row_starts_;
  std::vector<Entry> entries_;  // by residual row
};

}  // namespace topograd::test
