// Damped steps on a device: what is submitted together, and reports.
#include "device_steps.hpp"

#include <chrono>
#include <cmath>
#include <utility>

namespace topograd::runtime::vulkan {

using codegen::BufferRole;

DeviceSteps::DeviceSteps(const Part& part, TermSums& sums, NormalProducts& products,
                         PointMoves& moves, AcceptedPoints& accepted, KernelVariants& variants,
                         DeviceSteps* narrow)
    : Part(part),
      products_(products),
      moves_(moves),
      accepted_(accepted),
      variants_(variants),
      system_(part, products, moves),
      points_(part, sums, products, moves),
      taken_(part, moves, accepted, points_),
      narrow_(narrow) {
  if (narrow != nullptr) copies_.emplace(part, moves, static_cast<const Part&>(*narrow));
}

void DeviceSteps::begin() {
  if (!variants_.use_steps([this](CommandList& list) { record_all(list); })) return;
  products_.choose();
  products_.make_curvature();
}

void DeviceSteps::record_all(CommandList& list) {
  system_.record_scale(list, {});
  points_.record_all(list);
  system_.gradients().record_all(list);
  taken_.record(list);
  system_.elimination().record_all(list);
  if (copies_) copies_->record_all(list);
}

/// The elimination and the narrow system replace a part of it, and are not rehearsed.
void DeviceSteps::rehearse(CommandList& list) {
  system_.record_scale(list, {});
  points_.record_linearize(list);
  list.barrier();
  system_.gradients().record_all(list);
  points_.record_trial(list, Scalar::one);
  points_.record_trial(list, Scalar::user);
  taken_.rehearse(list);
}

void DeviceSteps::record_plain(CommandList& list, int iterations) {
  points_.record_linearize(list);
  list.barrier();
  system_.gradients({.by_blocks = false}).record_start(list);
  system_.gradients({.by_blocks = false}).record_iterations(list, iterations);
  points_.record_trial(list, Scalar::one);
}

bool DeviceSteps::prepare_ahead() {
  begin();
  const bool there = recorder_.advance(*preparation_, [&](CommandList& list) {
    list.declared() != nullptr ? record_all(list) : rehearse(list);
  });
  return (narrow_ == nullptr || narrow_->prepare_ahead()) && there;  // both begin
}

void DeviceSteps::prepare() {
  if (points_.prepared()) return;
  begin();
  Recorder::make([&](CommandList& list) { record_all(list); });
  points_.prepare();
  system_.prepare();
  accepted_.prepare();
}

void DeviceSteps::begin_solve() {
  system_.is_scaled() = false;
  system_.preconditioner().begin_solve();
  system_.elimination().begin_solve();
  if (narrow_ != nullptr) narrow_->begin_solve();
}

void DeviceSteps::transfer(ir::StateRecord& record) {
  system_.transfer(record);
  if (narrow_ != nullptr) narrow_->transfer(record);
}

PointReport DeviceSteps::linearize() {
  narrow_follows_ = false;
  variants_.follow();
  prepare();
  if (accepted_.known()) return *std::exchange(accepted_.known(), std::nullopt);
  recorder_.submit(points_.linearize());
  return points_.report(accepted_.read_scalars());
}

StepReport DeviceSteps::try_step(const StepRequest& request) {
  prepare();
  const auto start = std::chrono::steady_clock::now();
  Lists lists;
  if (narrow_ != nullptr) queue_narrow(lists);
  const bool takes = taken_.prepare(request.rule);
  const DampedSystem::Step step = {.point =
                                       [this] {
                                         std::vector<double> x(problem_.model().scalars);
                                         read_numbers(context_, v_.x, x);
                                         return x;
                                       },
                                   .run = [&](Lists& queued) -> const AcceptedPoints::Scalars& {
                                     if (narrow_ != nullptr) queued.push_back(&copies_->step());
                                     if (takes) {
                                       taken_.queue(queued);
                                     } else {
                                       queued.push_back(&points_.trial());
                                     }
                                     recorder_.submit(queued);
                                     const AcceptedPoints::Scalars& values =
                                         accepted_.read_scalars();
                                     if (takes) taken_.read();
                                     return values;
                                   }};
  const int iterations = solver().system_.solve(request, step, std::move(lists));
  const AcceptedPoints::Scalars& values = v_.ops->last_read();
  StepReport report = report_trial(values);
  report.linear_iterations = iterations;
  report.vanished_pivots = static_cast<std::uint64_t>(values[codegen::slot(Scalar::vanished)]);
  report.model_decrease = values[codegen::slot(Scalar::model_decrease)];
  step_norm_ = report.step_norm;
  points_.moved(1);
  if (takes) taken_.report(report);
  report.linear_seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return report;
}

StepReport DeviceSteps::try_step(std::span<const double> delta) {
  prepare();
  problem_.write(v_.step, delta);
  recorder_.submit(points_.trial());
  const StepReport report = report_trial(accepted_.read_scalars());
  step_norm_ = report.step_norm;
  points_.moved(1);
  return report;
}

StepReport DeviceSteps::report_trial(const AcceptedPoints::Scalars& values) const {
  return {.step_norm = std::sqrt(values[codegen::slot(Scalar::step_squared)]),
          .trial_cost = values[codegen::slot(Scalar::trial_cost)],
          .slope = values[codegen::slot(Scalar::slope)]};
}

void DeviceSteps::queue_narrow(Lists& lists) {
  DeviceSteps& narrow = *narrow_;
  if (!narrow_follows_) narrow.variants_.follow();
  narrow.prepare();
  if (!narrow.matrix_->list) {
    *narrow.matrix_ = narrow.recorder_.make_list(
        "matrix", [&](CommandList& list) { narrow.points_.record_matrix(list); });
  }
  copies_->prepare();
  if (std::exchange(narrow_follows_, true)) return;
  lists.insert(lists.end(), {&copies_->point(), &*narrow.matrix_, &copies_->gradient()});
}

double DeviceSteps::trial_cost() {
  prepare();
  recorder_.evaluate("trial_cost", [&](CommandList& list) {
    terms_.record_cost(list, v_.trial, Scalar::trial_cost);
    v_.ops->record_read(list);
  });
  return accepted_.read_scalars()[codegen::slot(Scalar::trial_cost)];
}

StepReport DeviceSteps::rescale_step(double length) {
  prepare();  // branches that went back may have changed the terms
  const std::pair<Scalar, double> scalars[] = {{Scalar::user, length}};
  v_.ops->write(scalars);
  recorder_.submit(points_.rescaled());
  const auto& values = accepted_.read_scalars();
  const double moved = std::sqrt(values[codegen::slot(Scalar::step_squared)]);
  points_.moved(length);
  return {.step_norm = moves_.has_bounds_or_manifolds() ? moved : length * step_norm_,
          .trial_cost = values[codegen::slot(Scalar::trial_cost)]};
}

void DeviceSteps::accept() {
  if (!accepted_.known()) recorder_.submit(accepted_.accepting());
}

using codegen::Scalar;

template <class Kernel>
void NarrowCopies::record(CommandList& list, const Buffer& from, const Buffer& to) {
  const auto n = static_cast<std::uint32_t>(problem_.model().scalars);
  narrow_.v_.ops->record(list, Kernel{{.source = from, .result = to}, {.count = n}});
}

void NarrowCopies::record_point(CommandList& list) {
  record<kernel::narrow>(list, v_.x, narrow_.v_.x);
}

/// The scalars on active bounds come from here: in f32 a point may seem to be on a bound that it is
/// not on.
void NarrowCopies::record_gradient(CommandList& list) {
  record<kernel::narrow>(list, v_.gradient, narrow_.v_.gradient);
  if (moves_.has_bounds_or_manifolds()) list.copy(v_.held, 0, narrow_.v_.held, 0, v_.held.size());
}

void NarrowCopies::record_step(CommandList& list) {
  const StepVectors& from = narrow_.v_;
  record<kernel::widen>(list, from.step, v_.step);
  record<kernel::widen>(list, from.residual, v_.residual);
  record<kernel::widen>(list, from.damping, v_.damping);
  for (const Scalar scalar : {Scalar::state, Scalar::iterations, Scalar::vanished}) {
    const std::uint64_t offset = codegen::slot(scalar) * sizeof(double);
    list.copy(from.ops->scalars(), offset, v_.ops->scalars(), offset, sizeof(double));
  }
}

void NarrowCopies::record_all(CommandList& list) {
  record_point(list);
  record_gradient(list);
  record_step(list);
}

void NarrowCopies::prepare() {
  if (lists_->point.list) return;
  narrow_.recorder_.make_lists(
      {{lists_->point, "narrow_point", [&](CommandList& list) { record_point(list); }},
       {lists_->gradient, "narrow_gradient", [&](CommandList& list) { record_gradient(list); }},
       {lists_->step, "narrow_step", [&](CommandList& list) { record_step(list); }}});
}

}  // namespace topograd::runtime::vulkan
