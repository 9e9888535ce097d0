// The linear model of a sum of squares: norms of columns, and Gauss–Newton's step.
#include "row_model.hpp"

#include "box.hpp"
#include "control.hpp"

#include <Eigen/Dense>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace topograd {
namespace {

// Norms of columns within this factor are alike.
constexpr double kAlike = 100;
// Multiply-adds of the decomposition of J that a last check may cost.
constexpr double kMostWork = 1e8;
// Pivots of J with columns of norm 1 below this share of the largest one are left out: rounding
// hides them.
double least_pivot(Precision precision) { return precision == Precision::f64 ? 1e-15 : 1e-7; }
// Residuals below this share of the terms J x that they are sums of count as zero.
constexpr double kHidden = 1e-10;
// Parts of the step to try.
constexpr double kParts[] = {1, 1.0 / 4, 1.0 / 16};

}  // namespace

bool RowModel::exists_for(const ProblemModel& problem) {
  return problem.constraints == ConstraintTerms::none && problem.shares == nullptr &&
         problem.problem->host_blocks().empty() &&
         std::ranges::none_of(problem.model.terms, &runtime::Term::energy);
}

RowModel::RowModel(Engines& engines, const ProblemModel& problem, Precision precision,
                   bool on_manifolds)
    : engines_(engines),
      model_(problem.model),
      precision_(precision),
      exists_(!on_manifolds && exists_for(problem)) {}

template <class Visit>
void RowModel::visit_entries(std::span<const double> x, const Visit& visit) {
  runtime::Engine& engine = engines_.at(runtime::Pass::jacobian, x);
  std::vector<double> values;
  std::vector<std::uint32_t> scalars;
  for (std::size_t t = 0; t < model_.terms.size(); ++t) {
    const runtime::Term& term = model_.terms[t];
    const std::size_t rows = term.topology->program.outputs.size(), count = term.batch->size();
    const std::uint32_t slots = term.batch->parameter_columns();
    values.resize(count * rows * slots);
    engine.jacobian(t, values);
    scalars.resize(count);
    for (std::uint32_t slot = 0; slot < slots; ++slot) {
      term.batch->copy_index_column(slot, 0, scalars);
      for (std::size_t i = 0; i < count; ++i) {
        if (!model_.constant.empty() && model_.constant[scalars[i]] != 0) continue;
        for (std::size_t row = 0; row < rows; ++row)
          visit(term.batch->residual_row(i) + row, scalars[i],
                values[(i * rows + row) * slots + slot]);
      }
    }
  }
}

std::vector<double> RowModel::squared_norms(std::span<const double> x) {
  std::vector<double> out(model_.scalars, 0.0);
  visit_entries(x, [&](std::size_t, std::uint32_t k, double value) { out[k] += value * value; });
  squares_.resize(out.size(), 0.0);
  for (std::size_t k = 0; k < out.size(); ++k)
    if (std::isfinite(out[k])) squares_[k] = std::max(squares_[k], out[k]);
  find_scales();
  return out;
}

void RowModel::look(std::span<const double> x) {
  if (exists_) squared_norms(x);
}

void RowModel::look_now_and_then(std::span<const double> x) {
  if (calls_ == 0 ? squares_.empty() : std::has_single_bit(calls_)) look(x);
  ++calls_;
}

void RowModel::find_scales() {
  double least = std::numeric_limits<double>::infinity(), largest = 0;
  for (const double square : squares_) {
    if (!(square > 0)) continue;
    least = std::min(least, square);
    largest = std::max(largest, square);
  }
  scales_.clear();
  if (dropped_ || !(std::sqrt(largest) > kAlike * std::sqrt(least))) return;
  for (const double square : squares_) scales_.push_back(1 / (square > 0 ? square : largest));
}

std::vector<double> RowModel::step(std::span<const double> x, std::span<const double> g) {
  if (!exists_) return {};
  const std::vector<double> squares = squared_norms(x);
  double sum = 0;
  for (std::size_t k = 0; k < squares.size(); ++k) sum += squares[k] * x[k] * x[k];
  terms_ = std::sqrt(sum);
  std::vector<double> out(g.size(), 0.0);
  std::vector<std::uint32_t> moving;  // scalars
  std::vector<Eigen::Index> column(g.size(), -1);
  for (std::uint32_t k = 0; k < g.size(); ++k) {
    if (g[k] == 0 || !std::isnormal(squares[k])) continue;
    out[k] = -g[k] / squares[k];
    column[k] = static_cast<Eigen::Index>(moving.size());
    moving.push_back(k);
  }
  if (moving.empty()) return {};
  const auto n = static_cast<double>(moving.size());
  if (static_cast<double>(model_.rows) * n * n > kMostWork) return out;
  Eigen::MatrixXd J = Eigen::MatrixXd::Zero(static_cast<Eigen::Index>(model_.rows),
                                            static_cast<Eigen::Index>(moving.size()));
  visit_entries(x, [&](std::size_t row, std::uint32_t k, double value) {
    if (column[k] >= 0)
      J(static_cast<Eigen::Index>(row), column[k]) += value / std::sqrt(squares[k]);
  });
  if (!J.allFinite()) return out;
  Eigen::ColPivHouseholderQR<Eigen::MatrixXd> qr(J);
  qr.setThreshold(least_pivot(precision_));
  Eigen::VectorXd residuals(J.rows());
  engines_.at(runtime::Pass::residual, x)
      .residuals({residuals.data(), static_cast<std::size_t>(residuals.size())});
  const Eigen::VectorXd d = qr.solve(-residuals);
  if (!d.allFinite()) return out;
  for (Eigen::Index c = 0; c < J.cols(); ++c) out[moving[c]] = d[c] / std::sqrt(squares[moving[c]]);
  return out;
}

void RowModel::drop_scales() {
  dropped_ = true;
  scales_.clear();
}

void RowModel::transfer(ir::StateRecord& record) {
  record.list("squared norms of columns", squares_);
  if (!squares_.empty() && squares_.size() != model_.scalars)
    record.refuse("squared norms of columns", "has another length");
  record.value("calls for scales", calls_);
  record.value("no scales", dropped_);
  if (record.restores()) find_scales();
}

bool improve(RowModel& rows, const Objective& objective, const LeastGain& asked,
             std::span<double> x, const SolverOptions& options, Summary& summary) {
  if (!rows.exists()) return false;
  std::vector<double> gradient(objective.steps());
  const double cost = objective.evaluate(x, gradient);
  Box(objective).project(x, gradient);
  const std::vector<double> step = rows.step(x, gradient);
  if (step.empty()) return false;
  const double hidden = kHidden * rows.terms();
  const double least =
      asked.factor * std::max(asked.change, std::min(asked.zero, hidden * hidden / 2));
  std::vector<double> part(step.size()), trial(x.size());
  int evaluations = 0;
  for (const double length : kParts) {
    for (std::size_t k = 0; k < step.size(); ++k) part[k] = length * step[k];
    objective.move(x, part, trial);
    const double there = objective.evaluate(trial, gradient);
    const GradientNorms norms = norms_of(gradient);
    ++evaluations;
    if (!(cost - there > least) || !std::isfinite(norms.max)) continue;
    std::ranges::copy(trial, x.begin());
    return record_step_beside({.cost = there,
                               .cost_change = cost - there,
                               .step_norm = norm_of(part),
                               .step_size = length,
                               .evaluations = evaluations},
                              norms, options, summary);
  }
  return false;
}

}  // namespace topograd
