// Damped least-squares steps on the device: linearisation, conjugate gradients, trial point.
#include "vulkan_engine.hpp"

#include "../../ir/error.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

namespace topograd::runtime::vulkan {
namespace {

using codegen::BufferRole;

/// Conjugate gradients take iterations in proportion to the logarithm of the tolerance; how many
/// are expected is kept for a tolerance of e⁻¹⁰.
double times_expected(double tolerance) {
  return std::max(std::log(1 / std::max(tolerance, 1e-300)), 0.1) / 10;
}

}  // namespace

void VulkanEngine::record_linearization(CommandList& list) {
  sums_.record(list, Pass::gradient, terms_.operands(v_.x), v_.gradient);
  products_.record_matrix(list);
  terms_.record_cost(list, v_.x, Scalar::cost);
  moves_.record_tangents(list);
  moves_.record_norms(list);
  moves_.record_scaled_norms(list);
}

void VulkanEngine::record_linearize(CommandList& list) {
  record_linearization(list);
  list.barrier();
  v_.ops->record_read(list);
}

void VulkanEngine::record_trial(CommandList& list) {
  list.barrier();
  moves_.record(list, Scalar::one);
  terms_.record_cost(list, v_.trial, Scalar::trial_cost);
  v_.ops->record_read(list);
}

void VulkanEngine::record_rescaled(CommandList& list) {
  list.barrier();
  moves_.record(list, Scalar::user);
  terms_.record_cost(list, v_.trial, Scalar::trial_cost);
  v_.ops->record_read(list);
}

void VulkanEngine::begin_step() {
  if (!variants_.use_steps([this](CommandList& list) { record_step(list); })) return;
  products_.choose();
  products_.make_curvature();
}

void VulkanEngine::prepare_lists() {
  if (linear_lists_->linearize.list) return;
  begin_step();
  recorder_.collect([&](CommandList& list) { record_step(list); });
  recorder_.finish_kernels();
  linear_lists_->linearize =
      recorder_.make_list("linearize", [&](CommandList& l) { record_linearize(l); });
  linear_lists_->solve_start =
      recorder_.make_list("solve_start", [&](CommandList& l) { record_solve_start(l, true); });
  linear_lists_->iterations = recorder_.make_list(
      "iterations", [&](CommandList& l) { record_iterations(l, kIterationsOfList, true); });
  if (!point_lists_->trial.list) make_point_lists();
}

void VulkanEngine::make_point_lists() {
  point_lists_->trial = recorder_.make_list("trial", [&](CommandList& l) { record_trial(l); });
  point_lists_->rescaled =
      recorder_.make_list("rescaled_trial", [&](CommandList& l) { record_rescaled(l); });
  points_.prepare();
}

PointReport VulkanEngine::linearize() {
  narrow_.follows = false;
  variants_.follow();
  prepare_lists();
  if (!points_.known()) {
    recorder_.submit(linear_lists_->linearize);
    return point_report(points_.read_scalars());
  }
  return *std::exchange(points_.known(), std::nullopt);
}

void VulkanEngine::record_scale(CommandList& list, const StepRequest& request) {
  if (request.jacobi_scaling) {
    const Scalar added = request.scale_free ? Scalar::zero : Scalar::one;
    v_.record_by_blocks(
        list, {.op = VectorOp::jacobi_scale, .constants = {.a = codegen::slot(added)}}, v_.table());
    return;
  }
  BindingTable table;
  table.set(BufferRole::result, v_.scale);
  v_.ops->record(list,
                 {.op = VectorOp::fill,
                  .constants = {.count = static_cast<std::uint32_t>(problem_.model().scalars)}},
                 table);
}

StepReport VulkanEngine::try_step(const StepRequest& request) {
  prepare_lists();
  const auto start = std::chrono::steady_clock::now();
  VulkanEngine& system = narrow_.engine != nullptr ? *narrow_.engine : *this;
  std::vector<const Recorded*> lists;
  if (&system != this) queue_narrow(lists);
  const bool takes = prepare_taking(request.rule);
  StepReport report;
  report.linear_iterations = system.solve_system(request, takes, *this, std::move(lists));
  const auto values = v_.ops->last_read();
  report.model_decrease = values[codegen::slot(Scalar::model_decrease)];
  report.step_norm = step_norm_ = std::sqrt(values[codegen::slot(Scalar::step_squared)]);
  report.trial_cost = values[codegen::slot(Scalar::trial_cost)];
  report.slope = values[codegen::slot(Scalar::slope)];
  moved_length_ = 1;
  if (takes) report_taken(report);
  report.linear_seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return report;
}

int VulkanEngine::solve_system(const StepRequest& request, bool takes, VulkanEngine& stepping,
                               std::vector<const Recorded*> lists) {
  if (!scale_is_set_) {
    const char* const name = !request.jacobi_scaling ? "no_scale"
                             : request.scale_free    ? "column_scale"
                                                     : "jacobi_scale";
    lists.push_back(
        &recorder_.evaluation(name, [&](CommandList& list) { record_scale(list, request); }));
    scale_is_set_ = true;
  }
  const bool eliminates = prepare_schur_lists();
  if (!eliminates) precondition_coarse(stepping, lists);
  const std::pair<Scalar, double> scalars[] = {
      {Scalar::lambda, request.lambda},
      {Scalar::min_diagonal, request.min_diagonal},
      {Scalar::max_diagonal, request.max_diagonal},
      {Scalar::tolerance, request.linear_tolerance},
      {Scalar::max_iterations, static_cast<double>(request.max_linear_iterations)},
      // A residual that a coarse space leaves is small in r·r before the step is any good.
      {Scalar::in_energy,
       request.energy_norm || (!eliminates && coarse_.control.in_use()) ? 1.0 : 0.0},
      {Scalar::eta, request.eta}};
  v_.ops->write(scalars);
  const double times = times_expected(request.linear_tolerance);
  const auto scaled = [](double count) {
    return std::max(static_cast<int>(std::lround(count)), 1);
  };
  expected_iterations_ = scaled(times * expected_iterations_);
  const int iterations = iterate(request.max_linear_iterations, takes, stepping, std::move(lists));
  expected_iterations_ = scaled(expected_iterations_ / times);
  if (!eliminates) coarse_.control.solved(iterations);
  return iterations;
}

StepReport VulkanEngine::try_step(std::span<const double> delta) {
  prepare_lists();
  problem_.write(v_.step, delta);
  recorder_.submit(point_lists_->trial);
  const auto values = points_.read_scalars();
  step_norm_ = std::sqrt(values[codegen::slot(Scalar::step_squared)]);
  moved_length_ = 1;
  return {.step_norm = step_norm_,
          .trial_cost = values[codegen::slot(Scalar::trial_cost)],
          .slope = values[codegen::slot(Scalar::slope)]};
}

double VulkanEngine::trial_cost() {
  prepare_lists();
  recorder_.evaluate("trial_cost", [&](CommandList& list) {
    terms_.record_cost(list, v_.trial, Scalar::trial_cost);
    v_.ops->record_read(list);
  });
  return points_.read_scalars()[codegen::slot(Scalar::trial_cost)];
}

StepReport VulkanEngine::rescale_step(double length) {
  prepare_lists();  // branches that went back may have changed the terms
  const std::pair<Scalar, double> scalars[] = {{Scalar::user, length}};
  v_.ops->write(scalars);
  recorder_.submit(point_lists_->rescaled);
  const auto values = points_.read_scalars();
  const double moved = std::sqrt(values[codegen::slot(Scalar::step_squared)]);
  moved_length_ = length;
  return {.step_norm = moves_.shaped() ? moved : length * step_norm_,
          .trial_cost = values[codegen::slot(Scalar::trial_cost)]};
}

void VulkanEngine::accept() {
  if (!points_.known()) recorder_.submit(points_.accepting());
}

PointReport VulkanEngine::point_report(const AcceptedPoints::Scalars& values) const {
  const auto at = [&](Scalar s) { return values[codegen::slot(s)]; };
  return {.cost = at(Scalar::cost),
          .gradient_max_norm = at(Scalar::gradient_max),
          .gradient_norm = std::sqrt(at(Scalar::gradient_squared)),
          .x_norm = std::sqrt(at(Scalar::x_squared)),
          .scaled_gradient_max = at(Scalar::scaled_gradient_max),
          .scaled_gradient_norm = std::sqrt(at(Scalar::scaled_gradient_squared)),
          .scaled_x_norm = std::sqrt(at(Scalar::scaled_x_squared)),
          .scaled_step_norm = moved_length_ * std::sqrt(at(Scalar::scaled_step_squared))};
}

}  // namespace topograd::runtime::vulkan
