// Damped steps on a device: what is submitted together, the device's decisions, and reports.
#include "device_steps.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

namespace topograd::runtime::vulkan {

using codegen::Scalar;
using codegen::Verdict;

/// If a solve has not finished or a step is refused, the conditional dispatches do nothing: point,
/// linearisation and the vectors of the solve remain what they are.
void TakenSteps::record(CommandList& list) {
  if (terms_.have_guards()) return;
  const auto opening = [&](ConditionalSection& conditional, const auto& kernel,
                           const ConditionalSection::Section& section) {
    conditional.record_opening(context_, *v_.ops, list, kernel, section);
  };
  const ConditionalSection::Section rescaling = [&](CommandList& l) {
    moves_.record(l, Scalar::length);
    terms_.record_cost(l, v_.trial, Scalar::rescaled_cost);
  };
  const ConditionalSection::Section returning = [&](CommandList& l) {
    moves_.record(l, Scalar::one);
  };
  const ConditionalSection::Section moving = [&](CommandList& l) {
    record_move(l);
    l.barrier();
    points_.record_linearization(l);
  };
  list.barrier();
  moves_.record(list, Scalar::one);
  terms_.record_cost(list, v_.trial, Scalar::trial_cost);
  opening(lists_->rescaling, kernel::choose_length{}, rescaling);
  lists_->rescaling.record_section(list, rescaling);
  opening(lists_->moving, kernel::take_step{}, moving);
  if (moves_.on_manifolds()) {
    opening(lists_->returning, kernel::open_conditional{{}, {.condition = Scalar::goes_back}},
            returning);
    lists_->returning.record_section(list, returning);
  }
  lists_->moving.record_section(list, moving);
}

/// Moves x to the trial point. If that is a sum, the step and its length suffice.
void TakenSteps::record_move(CommandList& list) {
  const auto n = static_cast<std::uint32_t>(problem_.model().scalars);
  if (moves_.has_bounds_or_manifolds()) {
    v_.ops->record(list, kernel::copy{{.source = v_.trial, .result = v_.x}, {.count = n}});
  } else {
    v_.ops->record(
        list, kernel::axpby{{.x = v_.step, .y = v_.x},
                            {.count = n, .x_factor = Scalar::length, .y_factor = Scalar::one}});
  }
}

void TakenSteps::rehearse(CommandList& list) {
  if (terms_.have_guards()) return;
  // Kernels that change one scalar of the trial point alone.
  const ConditionalSection::Section section = [&](CommandList& l) {
    v_.ops->record(l, kernel::fill{{.result = v_.trial}, {.count = 1, .value = Scalar::zero}});
    l.barrier();
    if (moves_.has_bounds_or_manifolds()) {
      v_.ops->record(l, kernel::copy{{.source = v_.x, .result = v_.trial}, {.count = 1}});
    } else {
      v_.ops->record(l, kernel::axpby{{.x = v_.x, .y = v_.trial}, {.count = 1}});
    }
    l.barrier();
  };
  const auto open = [&](const auto& kernel) {
    ConditionalSection conditional;
    conditional.record_opening(context_, *v_.ops, list, kernel, section);
    conditional.record_section(list, section);
  };
  open(kernel::choose_length{});
  open(kernel::take_step{});
  if (moves_.on_manifolds()) open(kernel::open_conditional{{}, {.condition = Scalar::zero}});
}

bool TakenSteps::prepare(const std::optional<StepRule>& rule) {
  accepted_.known().reset();
  if (!rule || terms_.have_guards())
    return false;  // failed guards are counted before a step may be taken
  if (!lists_->take.list) {
    recorder_.make_lists({{lists_->take, "take_step", [&](CommandList& l) { record(l); }}});
    lists_->take.kernels =
        points_.trial().kernels;  // conditional dispatches are counted when they run
    const std::uint64_t bytes = problem_.model().scalars * context_.element_bytes();
    for (std::size_t k = 0; k < lists_->stage.size(); ++k) {
      lists_->stage[k] = recorder_.make_list("stage_point", [&](CommandList& l) {
        l.copy(v_.x, 0, accepted_.staged().points[k], 0, bytes);
      });
    }
    lists_->read =
        recorder_.make_list("read_step", [&](CommandList& l) { v_.ops->record_read(l); });
  }
  constexpr double kNever = std::numeric_limits<double>::infinity();
  const std::pair<Scalar, double> scalars[] = {
      {Scalar::min_gain, rule->min_gain},
      {Scalar::min_decrease, rule->min_decrease},
      {Scalar::least_gain, rule->rescales ? rule->least_gain : kNever},
      {Scalar::least_change, rule->least_change},
      {Scalar::longest, rule->longest}};
  v_.ops->write(scalars);
  return true;
}

void TakenSteps::queue(std::vector<const Recorded*>& lists) {
  staged_ = accepted_.staged().due();
  lists.push_back(&lists_->take);
  if (staged_) lists.push_back(&lists_->stage[accepted_.staged().begin()]);
  lists.push_back(&lists_->read);
}

void TakenSteps::read() {
  const auto& values = v_.ops->last_read();
  if (values[codegen::slot(Scalar::is_rescaled)] > 0) recorder_.count(points_.rescaled().kernels);
  if (values[codegen::slot(Scalar::verdict)] != static_cast<double>(Verdict::accepted)) return;
  recorder_.count(points_.linearize().kernels);
  accepted_.staged().took(staged_);
  points_.moved(values[codegen::slot(Scalar::length)]);
  accepted_.known() = points_.report(values);
}

void TakenSteps::report(StepReport& report) const {
  const auto& values = v_.ops->last_read();
  if (values[codegen::slot(Scalar::verdict)] == static_cast<double>(Verdict::undecided)) return;
  report.accepted = accepted_.known().has_value();
  report.length = values[codegen::slot(Scalar::length)];
  if (!moves_.has_bounds_or_manifolds()) report.step_norm *= report.length;
}

std::uint32_t ConditionalSection::count_workgroups(Context& context, CommandList& list,
                                                   const Section& section) {
  std::vector<std::uint32_t> words;
  list.open_conditional(nullptr);
  section(list);
  const std::vector<Groups> dispatches = list.close_conditional();
  if (list.declared() != nullptr) return 0;
  for (const Groups& groups : dispatches) words.insert(words.end(), {groups.x, groups.y, groups.z});
  all_ = make_buffer(context, words, "conditional_workgroups");
  open_ = context.device->buffer(all_.size(), MemoryKind::Device, "open_conditional");
  return static_cast<std::uint32_t>(words.size());
}

void ConditionalSection::record_section(CommandList& list, const Section& section) {
  list.open_conditional(&open_);
  section(list);
  (void)list.close_conditional();
}

void StepPoints::record_linearization(CommandList& list) {
  sums_.record(list, Pass::gradient, terms_.operands(v_.x), v_.gradient);
  products_.record_matrix(list);
  terms_.record_cost(list, v_.x, Scalar::cost);
  moves_.record_tangents(list);
  moves_.record_norms(list);
  moves_.record_scaled_norms(list);
}

void StepPoints::record_matrix(CommandList& list) {
  products_.record_matrix(list);
  moves_.record_tangents(list);
}

void StepPoints::record_linearize(CommandList& list) {
  record_linearization(list);
  list.barrier();
  v_.ops->record_read(list);
}

void StepPoints::record_trial(CommandList& list, Scalar length) {
  list.barrier();
  moves_.record(list, length);
  terms_.record_cost(list, v_.trial, Scalar::trial_cost);
  v_.ops->record_read(list);
}

void StepPoints::prepare() {
  if (!linearize_->list)
    *linearize_ = recorder_.make_list("linearize", [&](CommandList& l) { record_linearize(l); });
  if (trials_->full.list) return;
  trials_->full =
      recorder_.make_list("trial", [&](CommandList& l) { record_trial(l, Scalar::one); });
  trials_->rescaled =
      recorder_.make_list("rescaled_trial", [&](CommandList& l) { record_trial(l, Scalar::user); });
}

PointReport StepPoints::report(const Scalars& values) const {
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
