// Matrices from the host: lists, and readback of how it ended.
#include "host_matrix_factor.hpp"

#include "../../../ir/error.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

namespace topograd::runtime::vulkan {
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

/// By place in the order.
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
  const auto place = failed + status[failed].refused - 1;
  const bool finite =
      std::ranges::all_of(values, [](double value) { return std::isfinite(value); });
  return {.end = finite ? FactorEnd::not_positive : FactorEnd::not_finite,
          .column = order_[place],
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
    list.write_timestamp("begin");
    factor_->record_factor(list, {.values = values_, .damping = damping_, .fixed = none_});
    factor_->record_solve(list, right_, false, none_, solution_);
    list.barrier();
    list.write_timestamp("end");
  });
  recorder_.warm_up(both);
  return recorder_.time_list(both, warm_ups, samples);
}

}  // namespace topograd::runtime::vulkan
