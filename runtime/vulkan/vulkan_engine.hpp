// The Vulkan engine: the parts of one problem on one device.
#pragma once

#include "../rows/rows.hpp"
#include "damped/device_steps.hpp"
#include "engine.hpp"
#include "evaluation_kinds.hpp"
#include "steps/device_gradient_steps.hpp"
#include "terms/point_vectors.hpp"

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace topograd::runtime::vulkan {

/// Evaluates at its point; whatever else it can do, its parts do.
class VulkanEngine final : public Engine,
                           public SecondDerivatives,
                           public SeveralValues,
                           public Guards,
                           public Plans {
 public:
  VulkanEngine(const Model& model, const EngineOptions& options);

  Abilities abilities() override {
    return {.steps = &steps_,
            .step_lengths = &steps_,
            .last_step = &steps_.system(),
            .elimination = &steps_.elimination(),
            .gradient_steps = &gradient_steps_,
            .second_derivatives = this,
            .several_values = this,
            .asynchronous = &begun_,
            .guards = this,
            .kernels_ahead = &kinds_,
            .known_point = &points_,
            .plans = this,
            .measurements = &kinds_};
  }
  Backend backend() const override { return Backend::vulkan; }
  std::string device() const override { return context_.device->info().name; }
  EngineStats stats() const override;
  std::string accumulation() const override { return sums_.choices().accumulation(); }
  PlanRecord plan() const override;
  std::unique_ptr<RowRunner> row_runner() const override {
    return make_row_runner(context_.options);
  }
  void refresh(const Model& model) override;

  void set_point(std::span<const double> x) override;
  void point(std::span<double> x) override { problem_.read_point(v_.x, x); }
  double cost() override;
  void residuals(std::span<double> out) override { vectors_.residuals(out); }
  void gradient(std::span<double> out) override { vectors_.gradient(out); }
  void evaluate(const Values& wanted) override;
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
  double trial_cost() override { return steps_.trial_cost(); }

 private:
  void build();
  /// For the same unknowns: point and steps stay.
  void rebuild();

  Context context_;
  /// The same model in f32, where EngineOptions::narrow_system is set: it has the linear systems.
  std::unique_ptr<VulkanEngine> narrow_;
  DeviceModel problem_;
  Recorder recorder_{context_};
  StepVectors v_;
  DeviceTerms terms_{context_, problem_, v_};

  const Part part_{context_, recorder_, problem_, v_, terms_};

  // Evaluations.
  TermRows rows_{part_};
  TermHessians hessians_{part_};
  TermSums sums_{part_, rows_};
  NormalProducts products_{part_, sums_};
  PointVectors vectors_{part_, rows_, sums_};

  // Steps.
  PointMoves moves_{part_};
  AcceptedPoints points_{part_};
  BegunEvaluations begun_{part_, rows_, sums_, points_};
  KernelVariants variants_{part_, rows_, sums_, products_, begun_};
  DeviceSteps steps_{
      part_, sums_, products_, moves_, points_, variants_, narrow_ ? &narrow_->steps_ : nullptr};
  DeviceGradientSteps gradient_steps_{part_, sums_, points_, moves_,
                                      [this] { variants_.follow_fixed(); }};
  EvaluationKinds kinds_{part_, rows_, hessians_, sums_, products_, steps_, narrow_.get()};
};

}  // namespace topograd::runtime::vulkan
