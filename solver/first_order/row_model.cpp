// The linear model of a sum of squares: norms of columns, and Gauss–Newton's step.
#include "row_model.hpp"

#include "../../runtime/linear/dense.hpp"
#include "../step_control/convergence.hpp"
#include "control.hpp"
#include "descent.hpp"

#include <Eigen/QR>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>

namespace topograd {
namespace {

// Multiply-adds of the decomposition of J that a last check may cost.
constexpr double kMostWork = 1e8;
// Pivots of J with columns of norm 1 below this share of the largest one are left out: rounding
// hides them.
double least_pivot(Precision precision) { return precision == Precision::f32 ? 1e-7 : 1e-15; }
// Residuals below this share of the terms J x that they are sums of count as zero.
constexpr double kHidden = 1e-10;
// Parts of the step down the gradient to try.
constexpr double kParts[] = {1, 1.0 / 4, 1.0 / 16};
// Coordinates that are moved alone.
constexpr std::size_t kMostAlone = 32;
// Steps by rows after one end of a descent, and the gain of good ones.
constexpr int kMostSteps = 200;
constexpr double kLeastShare = 1e-3, kGoodShare = 0.75;
// Of the damping after a step that the cost did not follow.
constexpr double kGrowth = 4;
// Units of rounding of the cost below which a change says nothing.
constexpr double kCostUnits = 8;

}  // namespace

bool RowModel::exists_for(const ProblemModel& problem) {
  return problem.constraints == ConstraintTerms::none && problem.shares == nullptr &&
         problem.problem->host_blocks().empty() &&
         std::ranges::none_of(problem.model.terms, &runtime::Term::energy);
}

RowSteps::RowSteps(const Eigen::MatrixXd& jacobian, const Eigen::VectorXd& norms,
                   const Eigen::VectorXd& residuals, double least_pivot)
    : norms_(norms) {
  const Eigen::ColPivHouseholderQR<Eigen::MatrixXd> qr(jacobian *
                                                       norms.cwiseInverse().asDiagonal());
  const Eigen::Index n = std::min(jacobian.rows(), jacobian.cols());
  const Eigen::VectorXd rotated = qr.householderQ().adjoint() * residuals;
  const Eigen::MatrixXd upper = qr.matrixR().topRows(n).triangularView<Eigen::Upper>();
  if (!upper.allFinite()) {
    moved_ = Eigen::VectorXd::Constant(1, std::numeric_limits<double>::quiet_NaN());
    return;
  }
  const runtime::Svd svd = runtime::fast_svd(upper, runtime::SvdVectors::both);
  const Eigen::VectorXd& values = svd.values;
  Eigen::Index kept = 0;
  while (kept < values.size() && values[kept] > least_pivot * values[0]) ++kept;
  values_ = values.head(kept);
  moved_ = -(svd.u.leftCols(kept).transpose() * rotated.head(n));
  right_ = qr.colsPermutation() * svd.v.leftCols(kept);
}

Eigen::VectorXd RowSteps::step(double lambda) const {
  const Eigen::ArrayXd along =
      moved_.array() * values_.array() / (values_.array().square() + lambda);
  return (right_ * along.matrix()).cwiseQuotient(norms_);
}

double RowSteps::promised(double lambda) const {
  const Eigen::ArrayXd squares = values_.array().square();
  const Eigen::ArrayXd along = moved_.array() * values_.array() / (squares + lambda);
  return (along * moved_.array() * values_.array() - along.square() * squares / 2).sum();
}

double RowSteps::weakest() const {
  const double last = values_.size() == 0 ? 1.0 : values_[values_.size() - 1];
  return last * last;
}

RowModel::RowModel(Engines& engines, const ProblemModel& problem, Precision precision,
                   const TangentSpace* space)
    : engines_(engines),
      model_(problem.model),
      precision_(precision),
      space_(space),
      host_(*problem.problem, true),
      exists_(exists_for(problem)) {}

std::size_t RowModel::columns() const {
  return space_ == nullptr ? model_.scalars : space_->size();
}

TangentJacobian RowModel::tangents(std::span<const double> x) {
  TangentJacobian out(model_, *space_, host_);
  if (!space_->basis(x, basis_))
    std::ranges::fill(basis_, std::numeric_limits<double>::quiet_NaN());
  out.refresh(engines_.at(runtime::Pass::jacobian, x), basis_);
  return out;
}

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
  std::vector<double> out(columns(), 0.0);
  if (space_ == nullptr) {
    visit_entries(x, [&](std::size_t, std::uint32_t k, double value) { out[k] += value * value; });
  } else {
    const Eigen::VectorXd norms = tangents(x).column_norms();
    for (std::size_t k = 0; k < out.size(); ++k)
      out[k] = norms[static_cast<Eigen::Index>(k)] * norms[static_cast<Eigen::Index>(k)];
  }
  learn(out);
  return out;
}

/// √Σ (‖J_i‖ x_i)².
double RowModel::terms(std::span<const double> x, const std::vector<double>& squares) const {
  if (space_ != nullptr)
    return std::sqrt(space_->scaled_square(x, basis_, [&](std::uint32_t k) { return squares[k]; }));
  double sum = 0;
  for (std::size_t k = 0; k < x.size(); ++k) sum += squares[k] * x[k] * x[k];
  return std::sqrt(sum);
}

void RowModel::look(std::span<const double> x) {
  if (exists_) squared_norms(x);
}

void RowModel::look_now_and_then(std::span<const double> x) {
  if (calls_ == 0 ? squares_.empty() : std::has_single_bit(calls_)) look(x);
  ++calls_;
}

/// The columns of J that move.
Eigen::MatrixXd RowModel::dense(std::span<const double> x, std::span<const std::uint32_t> moving) {
  const auto rows = static_cast<Eigen::Index>(model_.rows);
  Eigen::MatrixXd out = Eigen::MatrixXd::Zero(rows, static_cast<Eigen::Index>(moving.size()));
  if (space_ != nullptr) {
    const Eigen::MatrixXd all = tangents(x).dense();
    for (std::size_t c = 0; c < moving.size(); ++c)
      out.col(static_cast<Eigen::Index>(c)) = all.col(moving[c]);
    return out;
  }
  std::vector<Eigen::Index> column(model_.scalars, -1);
  for (std::size_t c = 0; c < moving.size(); ++c) column[moving[c]] = static_cast<Eigen::Index>(c);
  visit_entries(x, [&](std::size_t row, std::uint32_t k, double value) {
    if (column[k] >= 0) out(static_cast<Eigen::Index>(row), column[k]) += value;
  });
  return out;
}

RowModel::Columns RowModel::columns_at(std::span<const double> x) {
  Columns out{.squares = squared_norms(x)};
  out.terms = terms(x, out.squares);
  return out;
}

RowModel::Linearised RowModel::linearise(std::span<const double> x, std::span<const double> g) {
  const auto [squares, terms] = columns_at(x);
  Linearised out{.downhill = std::vector<double>(g.size(), 0.0), .terms = terms};
  for (std::uint32_t k = 0; k < g.size(); ++k) {
    if (g[k] == 0 || !std::isnormal(squares[k])) continue;
    out.downhill[k] = -g[k] / squares[k];
    out.moving.push_back(k);
  }
  const auto n = static_cast<double>(out.moving.size());
  if (out.moving.empty() || static_cast<double>(model_.rows) * n * n > kMostWork) return out;
  const Eigen::MatrixXd jacobian = dense(x, out.moving);
  if (!jacobian.allFinite()) return out;
  Eigen::VectorXd norms(jacobian.cols()), residuals(jacobian.rows());
  for (Eigen::Index c = 0; c < norms.size(); ++c)
    norms[c] = std::sqrt(squares[out.moving[static_cast<std::size_t>(c)]]);
  engines_.at(runtime::Pass::residual, x)
      .residuals({residuals.data(), static_cast<std::size_t>(residuals.size())});
  out.steps.emplace(jacobian, norms, residuals, least_pivot(precision_));
  if (!out.steps->is_finite()) out.steps.reset();
  return out;
}

void RowModel::transfer(ir::StateRecord& record) {
  record.list("squared norms of columns", squares_);
  if (!squares_.empty() && squares_.size() != columns())
    record.refuse("squared norms of columns", "has another length");
  record.value("calls for scales", calls_);
  record.value("no scales", dropped_);
  if (record.restores()) find_scales();
}

namespace {

/// One damped step, the damping growing from the one given. False if none is found that promises
/// more than `least`.
bool find_step(const RowModel::Linearised& here, double least, double noise, double& lambda,
               StepsBeside& point) {
  std::vector<double> step(point.gradient().size());
  if (lambda < kLeastShare * here.steps->weakest()) lambda = 0;
  for (;;) {
    const double promised = here.steps->promised(lambda);
    if (!(promised > least)) return false;
    const Eigen::VectorXd found = here.steps->step(lambda);
    std::ranges::fill(step, 0.0);
    for (std::size_t c = 0; c < here.moving.size(); ++c)
      step[here.moving[c]] = found[static_cast<Eigen::Index>(c)];
    const double change = point.look(step, 1);
    if (change > kLeastShare * promised && change > noise) {
      if (change > kGoodShare * promised) lambda /= 9;
      return true;
    }
    lambda = lambda == 0 ? here.steps->weakest() / kGrowth : kGrowth * lambda;
  }
}

/// Looks at a step in one coordinate that gains more than `least`, those that promise most first.
/// False if there is none.
bool find_single_step(const RowModel::Linearised& here, double least, StepsBeside& point) {
  const std::span<const double> g = point.gradient();
  const auto promised = [&](std::uint32_t k) { return -g[k] * here.downhill[k] / 2; };
  std::vector<std::uint32_t> some;
  for (const std::uint32_t k : here.moving)
    if (promised(k) > least) some.push_back(k);
  std::ranges::sort(some, [&](std::uint32_t a, std::uint32_t b) {
    return promised(a) != promised(b) ? promised(a) > promised(b) : a < b;
  });
  some.resize(std::min(some.size(), kMostAlone));
  std::vector<double> step(g.size());
  for (const std::uint32_t k : some) {
    step[k] = here.downhill[k];
    for (const double length : kParts)
      if (point.look(step, length) > least) return true;
    step[k] = 0;
  }
  return false;
}

/// The result of one step by rows.
enum class OneStep {
  none,     ///< none promises enough
  refused,  ///< the cost follows none
  found,    ///< the point has looked at it
};

OneStep find_any_step(const RowModel::Linearised& here, double least, double noise, double& lambda,
                      StepsBeside& point) {
  if (!(here.steps->promised(0) > least)) return OneStep::none;
  if (find_step(here, kLeastShare * least, noise, lambda, point)) return OneStep::found;
  lambda = 0;
  return find_single_step(here, std::max(least, noise), point) ? OneStep::found : OneStep::refused;
}

/// A part of the step down the gradient, for problems for which others take long.
EndByRows step_downhill(const RowModel::Linearised& here, double least, StepsBeside& point) {
  for (const double length : kParts) {
    if (point.look(here.downhill, length) > least)
      return point.take() ? EndByRows::improved : EndByRows::stopped;
  }
  return EndByRows::unknown;
}

}  // namespace

EndByRows improve(RowModel& rows, const Objective& objective, const LeastGain& asked,
                  std::span<double> x, const SolverOptions& options, Summary& summary) {
  if (!rows.exists()) return EndByRows::unknown;
  StepsBeside point(objective, x, options, summary);
  const double start = point.cost(), most = most_optimality(options.function_tolerance);
  double lambda = 0, least = 0;
  EndByRows end = EndByRows::agrees;
  int steps = 0;
  for (; steps < kMostSteps; ++steps) {
    const RowModel::Linearised here = rows.linearise(x, point.gradient());
    const double hidden = kHidden * here.terms;
    least = asked.factor * std::max(asked.change, std::min(asked.zero, hidden * hidden / 2));
    if (here.moving.empty()) return EndByRows::agrees;
    if (!here.steps) return step_downhill(here, least, point);
    const double noise = kCostUnits * cost_unit(options) * std::abs(point.cost());
    const OneStep found = find_any_step(here, least, noise, lambda, point);
    if (found == OneStep::refused && here.steps->promised(0) > most * most * point.cost())
      end = EndByRows::denied;
    if (found != OneStep::found) break;
    if (!point.take()) return EndByRows::stopped;
  }
  // Steps that were ended by their number would have gone on.
  return steps == kMostSteps || start - point.cost() > least ? EndByRows::improved : end;
}

}  // namespace topograd
