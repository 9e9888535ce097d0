// An engine that answers from a script, for tests of the outer loop without evaluations.
#pragma once

#include "../../../ir/error.hpp"
#include "../../../runtime/cpu/interpreter/interpreter.hpp"
#include "../../../runtime/engine/engine.hpp"

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace topograd::test {

/// Returns prepared reports: points in the order of linearisations, steps in the order of trials.
/// The last of each is repeated. Records the requests.
class ScriptedEngine final : public runtime::Engine,
                             public runtime::DampedSteps,
                             public runtime::StepLengths {
 public:
  ScriptedEngine(std::vector<runtime::PointReport> points, std::vector<runtime::StepReport> steps)
      : points_(std::move(points)), steps_(std::move(steps)) {}

  std::vector<double> lambdas;  ///< of the requests, in order
  /// Cost of the last step at another length; if empty, steps have one length.
  std::function<double(double)> cost_at_length;
  std::vector<double> lengths;  ///< requested lengths
  int accepts = 0;
  int linearizations = 0;

  runtime::Backend backend() const override { return runtime::Backend::cpu; }
  std::string device() const override { return "script"; }
  runtime::EngineStats stats() const override { return {}; }
  runtime::Abilities abilities() override {
    return {.steps = this, .step_lengths = cost_at_length ? this : nullptr};
  }
  std::unique_ptr<runtime::RowRunner> row_runner() const override {
    return runtime::cpu::make_row_runner(runtime::Precision::f64);
  }
  void refresh(const runtime::Model&) override {}
  void set_point(std::span<const double>) override {}
  void point(std::span<double>) override {}
  double cost() override { return points_.front().cost; }
  void residuals(std::span<double>) override {}
  void gradient(std::span<double>) override {}
  void jacobian(std::size_t, std::span<double>) override {}
  void jvp(std::span<const double>, std::span<double>) override {}
  void vjp(std::span<const double>, std::span<double>) override {}
  void jtjp(std::span<const double>, std::span<double>) override {}
  runtime::PointReport linearize() override { return next(points_, linearizations++); }
  runtime::StepReport try_step(const runtime::StepRequest& request) override {
    lambdas.push_back(request.lambda);
    return next(steps_, static_cast<int>(lambdas.size()) - 1);
  }
  runtime::StepReport try_step(std::span<const double>) override { return next(steps_, 0); }
  void trial_point(std::span<double>) override {
    throw Error(ErrorCode::Unsupported, "a script has no points");
  }
  runtime::StepReport rescale_step(double length) override {
    lengths.push_back(length);
    return {.step_norm = length, .trial_cost = cost_at_length(length)};
  }
  void accept() override { ++accepts; }

 private:
  template <class T>
  static T next(const std::vector<T>& script, int position) {
    return script[std::min(static_cast<std::size_t>(position), script.size() - 1)];
  }

  std::vector<runtime::PointReport> points_;
  std::vector<runtime::StepReport> steps_;
};

}  // namespace topograd::test
