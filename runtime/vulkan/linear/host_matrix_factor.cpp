// Matrices from the host: lists, readback of how it ended, and refinement.
#include "host_matrix_factor.hpp"

#include "../../../ir/error.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

namespace topograd::runtime::vulkan {
namespace {

using codegen::Scalar;

/// A residual that has not halved is not going to.
constexpr int kMostRefinements = 40;
constexpr double kStagnates = 0.5;

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
  Recorder::make([&](Needs& needs) { factor_->need(needs); });
  factor_list_ = recorder_.make_list("factor", [&](CommandList& list) {
    factor_->record_factor(list, {.values = values_, .damping = damping_, .fixed = none_});
    factor_->record_finish(list);
    list.barrier();
    vectors_.record_read(list);
  });
  solve_list_ = recorder_.make_list("factor_solve", [&](CommandList& list) {
    factor_->record_solve(list, right_, false, none_, solution_);
  });
}

FactorReport HostMatrixFactor::factor(std::span<const double> values, const PivotRule& rule) {
  host_values_.assign(values.begin(), values.end());
  write_numbers(context_, values_, values);
  const std::pair<Scalar, double> scalars[] = {{Scalar::vanishing, rule.vanishing}};
  vectors_.write(scalars);
  recorder_.submit(factor_list_);
  const auto& ended = vectors_.read(recorder_.last());
  const double state = ended[codegen::slot(Scalar::state)];
  if (state == static_cast<double>(codegen::SolverState::converged))
    return {.vanished = static_cast<std::uint64_t>(ended[codegen::slot(Scalar::vanished)])};
  std::vector<std::uint32_t> status(order_.size());
  context_.device->download<std::uint32_t>(factor_->status(), status);
  const auto refused = [](std::uint32_t pivot) { return pivot & 0xff; };
  const auto failed = static_cast<std::size_t>(
      std::ranges::find_if(status, [&](std::uint32_t pivot) { return refused(pivot) != 0; }) -
      status.begin());
  const auto place = failed + refused(status[failed]) - 1;
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

double HostMatrixFactor::find_residual(std::span<const double> right,
                                       std::span<const double> solution, std::span<double> residual,
                                       double& size) const {
  std::vector<double> sizes(right.size());
  for (std::size_t i = 0; i < right.size(); ++i) {
    residual[i] = right[i];
    sizes[i] = std::abs(right[i]);
  }
  const auto subtract = [&](std::size_t r, std::size_t c, double a) {
    residual[r] -= a * solution[c];
    sizes[r] += std::abs(a * solution[c]);
  };
  for (std::size_t c = 0; c + 1 < starts_.size(); ++c) {
    for (auto v = static_cast<std::size_t>(starts_[c]);
         v < static_cast<std::size_t>(starts_[c + 1]); ++v) {
      const auto r = static_cast<std::size_t>(rows_[v]);
      subtract(r, c, host_values_[v]);
      if (r != c) subtract(c, r, host_values_[v]);
    }
  }
  size = 0;
  double most = 0;
  for (std::size_t i = 0; i < right.size(); ++i) {
    size = std::max(size, sizes[i]);
    most = std::isfinite(residual[i]) ? std::max(most, std::abs(residual[i]))
                                      : std::numeric_limits<double>::infinity();
  }
  return most;
}

void HostMatrixFactor::solve(std::span<const double> right, std::span<double> solution) {
  refinements_ = 0;
  if (right.empty()) return;
  solve_once(right, solution);
  if (context_.wide()) return;
  std::vector<double> residual(right.size()), change(right.size()), better(right.size());
  double size = 0, before = find_residual(right, solution, residual, size);
  for (; refinements_ < kMostRefinements; ++refinements_) {
    if (!(before > std::numeric_limits<double>::epsilon() * size)) return;
    // Numbers of f32 underflow where residuals become small.
    for (double& number : residual) number /= before;
    solve_once(residual, change);
    for (std::size_t i = 0; i < change.size(); ++i) better[i] = solution[i] + before * change[i];
    const double after = find_residual(right, better, residual, size);
    if (!(after < before)) return;
    std::ranges::copy(better, solution.begin());
    if (after > kStagnates * before) return;
    before = after;
  }
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
