// The engine of a part of a model on a device.
#pragma once

#include "../../rows/rows.hpp"
#include "../terms/point_vectors.hpp"
#include "../terms/term_hessians.hpp"
#include "part_steps.hpp"

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace topograd::runtime::vulkan {

/// Evaluates at its point; steps are those of PartSteps. Sums by unknown have the order of the
/// whole model, and are evaluated again for each unknown, so that a division changes no bit of
/// them.
class PartEngine final : public Engine, public SecondDerivatives, public Guards, public Plans {
 public:
  ///   options  `part` is set; its link outlives the engine
  PartEngine(const Model& model, const EngineOptions& options);

  Abilities abilities() override {
    return {.steps = &*steps_,
            .step_lengths = &*steps_,
            .last_step = &*steps_,
            .second_derivatives = this,
            .guards = this,
            .plans = this};
  }
  Backend backend() const override { return Backend::vulkan; }
  std::string device() const override { return context_.device->info().name; }
  EngineStats stats() const override { return recorder_.stats(); }
  std::string accumulation() const override { return sums_.choices().accumulation(); }
  PlanRecord plan() const override;
  std::unique_ptr<RowRunner> row_runner() const override;
  /// Throws Error{Unsupported}: a part of another model is another engine.
  void refresh(const Model& model) override;

  void set_point(std::span<const double> x) override;
  void point(std::span<double> x) override { problem_.read_point(v_.x, x); }
  double cost() override { return steps_->cost(); }
  void residuals(std::span<double> out) override { vectors_.residuals(out); }
  void gradient(std::span<double> out) override { vectors_.gradient(out); }
  void jacobian(std::size_t term, std::span<double> values) override {
    rows_.jacobian(term, values);
  }
  void jvp(std::span<const double> p, std::span<double> out) override { vectors_.jvp(p, out); }
  void vjp(std::span<const double> seeds, std::span<double> out) override { rows_.vjp(seeds, out); }
  void jtjp(std::span<const double> p, std::span<double> out) override { vectors_.jtjp(p, out); }
  void hvp(std::span<const double> p, std::span<double> out) override { vectors_.hvp(p, out); }
  void hessian(std::size_t term, bool project, std::span<double> values) override {
    hessians_.read(term, project, values);
  }

  std::uint64_t failed_guards() override { return terms_.failed_guards(); }
  std::vector<std::uint32_t> failed_instances(std::size_t term, At at) override {
    return rows_.failed_instances(term, at);
  }
  double trial_cost() override { return steps_->trial_cost(); }

 private:
  Context context_;
  DeviceModel problem_;
  Recorder recorder_{context_};
  StepVectors v_;
  DeviceTerms terms_{context_, problem_, v_};
  const Part part_{context_, recorder_, problem_, v_, terms_};
  TermRows rows_{part_};
  TermHessians hessians_{part_};
  TermSums sums_{part_, rows_};
  PointVectors vectors_{part_, rows_, sums_};
  std::unique_ptr<PartSteps> steps_;
};

}  // namespace topograd::runtime::vulkan
