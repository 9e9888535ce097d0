// Recording of a factorisation, level by level, and of both triangular solves.
#include "device_factor.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "../../../ir/error.hpp"

namespace topograd::runtime::vulkan {

Why<MatrixReason> DeviceFactor::obstacle(const Context& context, const LevelPlan& plan) {
  if (context.device->limits().max_workgroup_invocations < codegen::kTileInvocations)
    return {MatrixReason::small_workgroups};
  const bool fits = plan.most_numbers * context.element_bytes() <= context.max_range() &&
                    plan.most_words * sizeof(std::uint32_t) <= context.max_range();
  if (!fits) return {MatrixReason::out_of_range};
  // Levels bind parts of the panels, and of update matrices.
  const std::uint64_t largest = std::max({plan.panels, plan.updates[0], plan.updates[1]});
  if (largest * context.element_bytes() > context.device->limits().max_allocation_size)
    return {MatrixReason::out_of_range};
  return {};
}

LevelPlan::Limits DeviceFactor::limits(const Context& context) {
  return {.numbers = context.max_range() / context.element_bytes(),
          .words = context.max_range() / sizeof(std::uint32_t)};
}

DeviceFactor::DeviceFactor(Context& context, VectorOps& vectors, const LevelPlan& plan)
    : context_(context),
      vectors_(vectors),
      levels_(plan.levels),
      ranges_(plan.ranges),
      unknowns_(plan.unknowns()),
      predicted_(plan.bytes(context.element_bytes())) {
  const auto words = [&](std::span<const std::uint32_t> list) {
    return make_buffer(context, list, "factor_words");
  };
  const auto numbers = [&](std::uint64_t count) {
    return make_numbers(context, count, "factor_numbers");
  };
  fronts_ = words(plan.fronts);
  entries_ = words(plan.entry_words());
  items_ = words(plan.items);
  parent_rows_ = words(plan.parent_rows);
  row_scalars_ = words(plan.row_scalars);
  cuts_ = words(plan.cuts);
  pivot_scalars_ = words(plan.pivot_scalars);
  panels_ = numbers(plan.panels);
  for (int k : {0, 1}) updates_[k] = numbers(plan.updates[k]);
  fronts_vectors_ = numbers(plan.vectors);
  solved_ = numbers(unknowns_);
  status_ = words(std::vector<std::uint32_t>(unknowns_));
  limits_ = numbers(plan.scalars);
}

std::uint64_t DeviceFactor::bytes() const {
  std::uint64_t sum = 0;
  for (const Buffer* buffer :
       {&fronts_, &entries_, &items_, &parent_rows_, &row_scalars_, &cuts_, &pivot_scalars_,
        &panels_, &updates_[0], &updates_[1], &fronts_vectors_, &solved_, &status_, &limits_})
    sum += buffer->size();
  return sum;
}

/// Items of a list from the last aligned one on that is not behind the first.
kernel::Part DeviceFactor::words_part(const Buffer& list, const Items& items, std::uint32_t words) {
  const std::uint64_t before = items.first % LevelPlan::kAlignment;
  const std::uint64_t bytes = words * sizeof(std::uint32_t);
  return {list, (items.first - before) * bytes, (items.count + before) * bytes};
}

template <class Kernel>
void DeviceFactor::record_items(CommandList& list, Kernel kernel, const Items& items) {
  if (items.count == 0) return;
  list.barrier();
  kernel.buffers.fronts = fronts_;
  const kernel::Part part = words_part(items_, items, LevelPlan::kItemWords);
  kernel.buffers.items = part;
  kernel.push.count = items.count;
  kernel.push.first = items.first % LevelPlan::kAlignment;
  const std::uint32_t most = context_.device->limits().max_workgroups_x;
  vectors_.record(list, kernel, {.groups = std::min(items.count, most)});
}

template <class Kernel>
Kernel DeviceFactor::with_children(Kernel kernel) const {
  kernel.buffers.cuts = cuts_;
  kernel.buffers.places = parent_rows_;
  return kernel;
}

kernel::Part DeviceFactor::part(const Buffer& buffer, const LevelPlan::Piece& piece) const {
  const std::uint64_t number = context_.element_bytes();
  return {buffer, piece.first * number, std::max<std::uint64_t>(piece.count, 1) * number};
}

kernel::Part DeviceFactor::panels(const LevelPlan::Level& level) const {
  return part(panels_, ranges_[level.range].panels);
}

void DeviceFactor::record_entries(CommandList& list, const Matrix& matrix) {
  for (const LevelPlan::Range& range : ranges_) {
    if (range.entries.count == 0) continue;
    vectors_.record(
        list,
        kernel::front_entries{
            {.matrix = matrix.values,
             .damping = matrix.damping,
             .panels = part(panels_, range.panels),
             .entries = words_part(entries_, range.entries, LevelPlan::kEntryWords),
             .fixed_scalars = matrix.fixed,
             .limits = limits_},
            {.count = range.entries.count, .first = range.entries.first % LevelPlan::kAlignment}});
  }
}

void DeviceFactor::record_factor(CommandList& list, const Matrix& matrix) {
  list.barrier();
  list.fill(panels_, 0, panels_.size(), 0);
  list.fill(limits_, 0, limits_.size(), 0);  // of rows without an entry on the diagonal
  list.barrier();
  record_entries(list, matrix);
  const std::uint32_t indefinite = matrix.admitted == AdmittedPivots::nonzero ? 1 : 0;
  for (const LevelPlan::Level& level : levels_) {
    const kernel::Part panels = this->panels(level);
    const kernel::Part children = part(updates_[1 - level.side], level.children);
    const auto children_first = static_cast<std::uint32_t>(level.children.first);
    record_items(list,
                 with_children(kernel::front_assemble{{.updates = children, .panels = panels},
                                                      {.children_first = children_first}}),
                 level.assemble);
    for (std::uint32_t s = 0; s < level.panel.size(); ++s) {
      record_items(list,
                   kernel::front_panel{{.panels = panels,
                                        .status = status_,
                                        .limits = limits_,
                                        .pivot_scalars = pivot_scalars_},
                                       {.indefinite = indefinite}},
                   level.panel[s]);
      record_items(
          list,
          kernel::front_trailing{{.panels = panels},
                                 {.pivot_first = s * kFrontTile, .indefinite = indefinite}},
          level.trailing[s]);
    }
    record_items(list,
                 with_children(kernel::front_update{
                     {.panels = panels,
                      .updates = children,
                      .remains = part(updates_[level.side], level.updates)},
                     {.children_first = children_first,
                      .remains_first = static_cast<std::uint32_t>(level.updates.first),
                      .indefinite = indefinite}}),
                 level.update);
  }
}

void DeviceFactor::record_solve(CommandList& list, const Buffer& right, bool negative,
                                const Buffer& fixed, const Buffer& solution) {
  for (const LevelPlan::Level& level : levels_) {
    record_items(list,
                 with_children(kernel::front_gather{{.right_side = right,
                                                     .vectors = fronts_vectors_,
                                                     .pivot_scalars = pivot_scalars_,
                                                     .fixed_scalars = fixed},
                                                    {.negative = negative ? 1u : 0u}}),
                 level.gather);
    for (const Items& items : level.panel) {
      record_items(
          list,
          kernel::front_forward{
              {.panels = panels(level), .vectors = fronts_vectors_, .solved = solved_}, {}},
          items);
    }
  }
  for (std::size_t l = levels_.size(); l-- > 0;) {
    const LevelPlan::Level& level = levels_[l];
    record_items(list,
                 kernel::front_below{{.panels = panels(level),
                                      .solution = solution,
                                      .solved = solved_,
                                      .row_scalars = row_scalars_},
                                     {}},
                 level.below);
    for (std::size_t s = level.backward.size(); s-- > 0;) {
      record_items(list,
                   kernel::front_backward{{.panels = panels(level),
                                           .solved = solved_,
                                           .solution = solution,
                                           .pivot_scalars = pivot_scalars_},
                                          {}},
                   level.backward[s]);
    }
  }
}

void DeviceFactor::record_finish(CommandList& list) {
  list.barrier();
  vectors_.record(list, kernel::front_finish{{.status = status_}, {.count = unknowns_}});
}

std::uint64_t DeviceFactor::steps() const {
  std::uint64_t sum = 0;
  for (const LevelPlan::Level& level : levels_) sum += level.panel.size();
  return sum;
}

std::uint64_t DeviceFactor::dispatches() const {
  std::uint64_t sum = 1;
  for (const LevelPlan::Range& range : ranges_) sum += range.entries.count > 0 ? 1 : 0;
  const auto add = [&](const Items& items) { sum += items.count > 0 ? 1 : 0; };
  for (const LevelPlan::Level& level : levels_) {
    for (const Items& items : {level.assemble, level.update, level.gather, level.below}) add(items);
    for (const auto* steps : {&level.panel, &level.trailing, &level.panel, &level.backward})
      for (const Items& items : *steps) add(items);
  }
  return sum;
}

namespace {

using codegen::Scalar;

}  // namespace

HostMatrixFactor::HostMatrixFactor(const LowerPattern& lower, const FactorPlan& plan,
                                   const EngineOptions& options)
    : starts_(lower.starts.begin(), lower.starts.end()),
      rows_(lower.rows.begin(), lower.rows.end()),
      order_(plan.order),
      context_(open_context(options)) {
  const LevelPlan levels = make_level_plan(plan, lower, DeviceFactor::limits(context_));
  const Why<MatrixReason> why = DeviceFactor::obstacle(context_, levels);
  if (why.reason != MatrixReason::none)
    throw Error(ErrorCode::Unsupported,
                "factorisation on a device: " + std::to_string(levels.panels) +
                    " numbers of the factor, " + std::to_string(levels.words()) +
                    " words of its lists do not fit the limits of this device");
  factor_ = std::make_unique<DeviceFactor>(context_, vectors_, levels);
  const std::uint64_t n = lower.columns();
  values_ = make_numbers(context_, rows_.size(), "matrix_values");
  none_ = make_buffer(context_, std::span<const std::uint32_t>(), "fixed");
  damping_ = make_buffer(context_, std::vector<double>(n), "damping");
  right_ = make_numbers(context_, n, "right");
  solution_ = make_numbers(context_, n, "solution");
  recorder_.make_lists({{factor_list_, "factor",
                         [&](CommandList& list) { record_factor(list, AdmittedPivots::positive); }},
                        {solve_list_, "factor_solve", [&](CommandList& list) {
                           factor_->record_solve(list, right_, false, none_, solution_);
                         }}});
}

void HostMatrixFactor::record_factor(CommandList& list, AdmittedPivots admitted) {
  factor_->record_factor(
      list, {.values = values_, .damping = damping_, .fixed = none_, .admitted = admitted});
  factor_->record_finish(list);
  list.barrier();
  vectors_.record_read(list);
}

/// By position in the order.
std::vector<DeviceFactor::PivotStatus> HostMatrixFactor::read_status() {
  std::vector<std::uint32_t> words(order_.size());
  context_.device->download<std::uint32_t>(factor_->status(), words);
  std::vector<DeviceFactor::PivotStatus> out;
  out.reserve(words.size());
  for (const std::uint32_t word : words) out.push_back(DeviceFactor::unpack(word));
  return out;
}

FactorReport HostMatrixFactor::factor(std::span<const double> values, const PivotRule& rule) {
  host_values_.assign(values.begin(), values.end());
  write_numbers(context_, values_, values);
  const std::pair<Scalar, double> scalars[] = {{Scalar::vanishing, rule.vanishing}};
  vectors_.write(scalars);
  const bool indefinite = rule.admitted == AdmittedPivots::nonzero;
  if (indefinite && !indefinite_list_.list)
    indefinite_list_ = recorder_.make_list(
        "factor", [&](CommandList& list) { record_factor(list, rule.admitted); });
  recorder_.submit(indefinite ? indefinite_list_ : factor_list_);
  const auto& ended = vectors_.read(recorder_.last());
  const double state = ended[codegen::slot(Scalar::state)];
  report_ = {};
  if (state == static_cast<double>(codegen::SolverState::converged)) {
    report_.vanished = static_cast<std::uint64_t>(ended[codegen::slot(Scalar::vanished)]);
    if (indefinite)
      for (const DeviceFactor::PivotStatus& step : read_status()) report_.negative += step.negative;
    report_.positive = order_.size() - report_.negative - report_.vanished;
    return report_;
  }
  const std::vector<DeviceFactor::PivotStatus> status = read_status();
  const auto failed = static_cast<std::size_t>(
      std::ranges::find_if(
          status, [](const DeviceFactor::PivotStatus& step) { return step.refused != 0; }) -
      status.begin());
  const auto position = failed + status[failed].refused - 1;
  const bool finite =
      std::ranges::all_of(values, [](double value) { return std::isfinite(value); });
  return {.end = finite ? FactorEnd::not_positive : FactorEnd::not_finite,
          .column = order_[position],
          .pivot = std::numeric_limits<double>::quiet_NaN()};
}

void HostMatrixFactor::solve_once(std::span<const double> right, std::span<double> solution) {
  write_numbers(context_, right_, right);
  recorder_.submit(solve_list_);
  read_numbers(context_, solution_, solution);
}

SolveReport HostMatrixFactor::solve(std::span<const double> right, std::span<double> solution) {
  if (right.empty()) return {.accurate = true};
  if (context_.wide() && report_.negative == 0) {  // backward stable
    solve_once(right, solution);
    return {.accurate = true};
  }
  return solve_refined({{starts_, rows_}, host_values_}, right, solution,
                       [&](std::span<const double> b, std::span<double> x) { solve_once(b, x); });
}

Timing HostMatrixFactor::time(int warm_ups, int samples) {
  const Recorded both = recorder_.make_list("factor_and_solve", [&](CommandList& list) {
    stamped(list, [&] {
      factor_->record_factor(list, {.values = values_, .damping = damping_, .fixed = none_});
      factor_->record_solve(list, right_, false, none_, solution_);
      list.barrier();
    });
  });
  recorder_.warm_up(both);
  return recorder_.time_list(both, warm_ups, samples);
}

}  // namespace topograd::runtime::vulkan
