// Self-test of the ops.
#include "ops.hpp"

#include "../../../autodiff/derivatives.hpp"
#include "../../../ir/checking/error_bound.hpp"
#include "../../../ir/checking/random_program.hpp"
#include "../../../ir/passes/passes.hpp"
#include "../../../runtime/rows/row_answers.hpp"
#include "../../../solver/interrupts.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace topograd::check {
namespace {

constexpr std::uint64_t kDefaultPoints = 2000;

/// Data of an op that is the same on all backends: points and expected results.
template <class T>
class Sweep {
 public:
  Sweep(ir::Op op, const Options& options)
      : op_(op),
        value_(single_op(op)),
        derivative_(ir::expand(autodiff::jacobian(value_, slots(op)))) {
    constexpr auto kPrecision = sizeof(T) == sizeof(float) ? Precision::f32 : Precision::f64;
    rows_.parameters = op_points(op, kPrecision,
                                 options.count == 0 ? kDefaultPoints : options.count, options.seed);
    rows_.count = rows_.parameters[0].size();
    if (ir::info(op).composite) values_ = runtime::find_answers<T>(value_, rows_);
    derivatives_ = runtime::find_answers<T>(derivative_, rows_);
  }

  OpResult run(const Place& place) const {
    OpResult result{
        .op = std::string(ir::info(op_).name),
        .backend = std::string(name(place.runner->backend())),
        .device = place.runner->device(),
        .precision = place.runner->precision(),
        .points = rows_.count,
        .bound = sizeof(T) == sizeof(float) ? ir::info(op_).ulp_f32 : ir::info(op_).ulp_f64};
    const runtime::Columns values = place.runner->run(value_, rows_);
    for (std::size_t i = 0; i < rows_.count; ++i) {
      if (!values_.empty() && values_[i].tiny && !place.keeps_subnormals) continue;
      const T got = static_cast<T>(values[0][i]);
      const ir::Deviation deviation = values_.empty() ? ir::deviation<T>(op_, point(i), got)
                                                      : runtime::deviation<T>(values_[i], got);
      note(result.value, deviation, got, i, place);
    }
    const runtime::Columns slopes = place.runner->run(derivative_, rows_);
    for (std::size_t i = 0; i < rows_.count; ++i) {
      for (std::size_t k = 0; k < slopes.size(); ++k) {
        const T got = static_cast<T>(slopes[k][i]);
        const runtime::Answer& answer = derivatives_[i * slopes.size() + k];
        if (answer.tiny && !place.keeps_subnormals) continue;
        note(result.derivative, runtime::deviation<T>(answer, got), got, i, place);
      }
    }
    return result;
  }

 private:
  static std::vector<std::uint32_t> slots(ir::Op op) {
    std::vector<std::uint32_t> all;
    for (int k = 0; k < ir::arity(op); ++k) all.push_back(static_cast<std::uint32_t>(k));
    return all;
  }

  std::array<T, 3> point(std::size_t i) const {
    std::array<T, 3> x;
    for (std::size_t k = 0; k < 3; ++k) x[k] = static_cast<T>(rows_.parameters[k][i]);
    return x;
  }

  void note(Worst& worst, const ir::Deviation& deviation, T got, std::size_t row,
            const Place& place) const {
    const std::array<T, 3> x = point(row);
    const bool lost = runtime::is_tiny(static_cast<T>(deviation.expected)) ||
                      std::ranges::any_of(x, [](T v) { return runtime::is_tiny(v); });
    if (!place.keeps_subnormals && lost) return;
    if (!deviation.within && worst.broken++ > 0) return;
    if (deviation.within && (worst.broken > 0 || deviation.ulp <= worst.ulp)) return;
    worst.ulp = deviation.ulp;
    worst.at.assign(x.begin(), x.begin() + ir::arity(op_));
    worst.got = got;
    worst.expected = static_cast<double>(deviation.expected);
  }

  ir::Op op_;
  ir::Program value_, derivative_;
  runtime::Rows rows_;
  std::vector<runtime::Answer> values_;  // of composite ops
  std::vector<runtime::Answer> derivatives_;
};

template <class T>
void sweep(ir::Op op, const Options& options, std::span<const Place> places, OpsReport& report) {
  constexpr auto kPrecision = sizeof(T) == sizeof(float) ? Precision::f32 : Precision::f64;
  const Sweep<T> made(op, options);
  for (const Place& place : places) {
    if (place.runner->precision() != kPrecision) continue;
    report.results.push_back(made.run(place));
    report.broken += report.results.back().value.broken + report.results.back().derivative.broken;
  }
}

}  // namespace

OpsReport check_ops(const Options& options) {
  const std::vector<Place> places = open_places(options);
  return check_ops(options, places);
}

OpsReport check_ops(const Options& options, std::span<const Place> places) {
  OpsReport report;
  for (const ir::Op op : ir::all_ops()) {
    if (Interrupts::came()) break;
    for (const Precision precision : precisions_of(places)) {
      if (precision == Precision::f32) {
        sweep<float>(op, options, places, report);
      } else {
        sweep<double>(op, options, places, report);
      }
    }
  }
  return report;
}

}  // namespace topograd::check
