// Multipliers, penalties, and when to stop.
#include "augmented_lagrangian.hpp"

#include "../../ir/error.hpp"
#include "constraint_report.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <utility>

namespace topograd {
namespace {

// The violation must fall to this share from one minimisation to the next, or μ grows.
constexpr double kEnoughProgress = 0.25;
// Above this share it has not fallen at all, and multipliers stay.
constexpr double kSomeProgress = 0.9;
constexpr double kPenaltyGrowth = 10;
// Growth of μ in vain before a problem may be called infeasible, and its factor meanwhile.
constexpr int kStalls = 5;
constexpr double kStalledGrowth = 100;
constexpr double kLargestPenalty = 1e20;
// Inner tolerances: the first one as a share of the gradient at the start, and their decrease.
constexpr double kFirstBound = 0.1, kBoundDecrease = 0.05;
// Slope of the violation, as a share of that at the start, below which the violation is stationary.
constexpr double kStationary = 1e-3;
// Range of the first μ.
constexpr double kLeastPenalty = 1e-3, kLargestFirstPenalty = 300;
// Minimisations without a smaller gradient after which rounding is the reason, if the gradient is
// at most this many tolerances.
constexpr int kMostIdle = 4;
constexpr double kNearlyStationary = 30;
// The unit of the Lagrangian's gradient is at least this share of the objective's at the start.
constexpr double kShareOfStart = 1e-2;
// Products λ c are compared with this share of the objective, and at least of 1.
constexpr double kShareOfObjective = 1e-4;
// Multipliers that count as 0, as a share of the largest.
constexpr double kNoMultiplier = 1e-10;

double largest(std::span<const double> numbers) {
  double most = 0;
  for (const double number : numbers) most = std::max(most, std::abs(number));
  return most;
}

double norm(std::span<const double> numbers) {
  double sum = 0;
  for (const double number : numbers) sum += number * number;
  return std::sqrt(sum);
}

std::string text(double number) {
  char out[32];
  std::snprintf(out, sizeof out, "%.6g", number);
  return out;
}

}  // namespace

SolverOptions inner_options(SolverOptions options, const Problem& problem) {
  if (!options.checkpoint.file.empty() || !options.resume.empty())
    throw Error(ErrorCode::Unsupported,
                "solve: augmented_lagrangian writes and resumes no checkpoints; expected empty "
                "checkpoint.file and resume");
  const bool squares = problem.energy_count() == 0;
  const bool curves = !problem.has_manifolds() && problem.host_blocks().empty();
  options.method = squares ? Method::levenberg_marquardt : curves ? Method::newton : Method::lbfgs;
  options.function_tolerance = options.parameter_tolerance = options.gradient_tolerance = 0;
  return options;
}

AugmentedLagrangian::AugmentedLagrangian(Problem& problem, const ProblemModel& model,
                                         const SolverOptions& options, Summary& summary,
                                         InnerSolves& inner)
    : problem_(problem),
      model_(model),
      options_(options),
      summary_(summary),
      inner_(inner),
      penalties_(problem),
      space_(problem) {}

void AugmentedLagrangian::list_rows() {
  const std::size_t rows = penalties_.rows();
  equality_.assign(rows, false);
  fixed_.assign(rows, false);
  lambda_.assign(rows, 0);
  shift_.assign(rows, 0);
  violation_.assign(rows, 0);
  const std::uint64_t first = penalties_.first_row();
  const std::span<const std::uint8_t> constant = problem_.constant_mask();
  for (std::size_t k = 0; k < model_.topologies.size(); ++k) {
    const BlockKind kind = problem_.kind(model_.topologies[k]);
    if (!is_constraint(kind)) continue;
    const ir::Batch& batch = *model_.model.terms[k].batch;
    const std::size_t outputs = model_.model.terms[k].topology->program.outputs.size();
    for (std::size_t i = 0; i < batch.size(); ++i) {
      bool fixed = !constant.empty();
      for (std::uint32_t c = 0; fixed && c < batch.parameter_columns(); ++c)
        fixed = constant[batch.index(i, c)] != 0;
      for (std::size_t output = 0; output < outputs; ++output) {
        const std::size_t row = batch.residual_row(i) - first + output;
        equality_[row] = kind == BlockKind::equality;
        fixed_[row] = fixed;
      }
    }
  }
}

void AugmentedLagrangian::set(double weight, std::span<const double> shifts) {
  penalties_.set_weight(weight);
  if (!shifts.empty()) penalties_.set_shifts(shifts);
}

double AugmentedLagrangian::projected_max(std::vector<double>& gradient) const {
  const std::span<const double> x = inner_.point();
  const runtime::Model& model = model_.model;
  for (std::size_t k = 0; k < gradient.size() && !model.lower.empty(); ++k)
    gradient[k] = x[k] - std::clamp(x[k] - gradient[k], model.lower[k], model.upper[k]);
  std::vector<double> basis, tangent(space_.size());
  if (!space_.basis(x, basis)) return largest(gradient);
  space_.project(basis, gradient, tangent);
  return largest(tangent);
}

void AugmentedLagrangian::start() {
  list_rows();
  std::vector<double> gradient(model_.model.scalars), with(gradient.size());
  set(0, lambda_);
  runtime::Engine& without = inner_.engine(runtime::Pass::cost_gradient);
  runtime::evaluate(without, {.cost = &objective_, .gradient = gradient});
  first_objective_ = objective_;
  std::vector<double> rows(model_.model.rows);
  set(1, {});
  runtime::Engine& engine = inner_.engine(runtime::Pass::values);
  runtime::evaluate(engine, {.residuals = rows, .gradient = with});
  for (std::size_t k = 0; k < with.size(); ++k) with[k] -= gradient[k];
  const std::span<const double> own(rows.data() + (rows.size() - lambda_.size()), lambda_.size());
  for (std::size_t k = 0; k < own.size(); ++k) violation_[k] = std::abs(own[k]);
  first_violation_ = largest(violation_);
  first_gradient_ = largest(gradient);
  const double norm_of_violation = norm(violation_);
  if (norm_of_violation > 0) violation_slope_ = projected_max(with) / norm_of_violation;
  const double squared = norm_of_violation * norm_of_violation;
  mu_ = options_.initial_penalty > 0
            ? options_.initial_penalty
            : std::clamp(10 * std::max(1.0, std::abs(objective_)) / std::max(1.0, squared / 2),
                         kLeastPenalty, kLargestFirstPenalty);
  best_ = before_ = std::numeric_limits<double>::infinity();
  next_lambda_ = lambda_;
  set_multipliers();
  runtime::Engine& penalised = inner_.engine(runtime::Pass::gradient);
  runtime::evaluate(penalised, {.gradient = gradient});
  bound_ = kFirstBound * projected_max(gradient);
}

bool AugmentedLagrangian::refuse_fixed() {
  std::size_t worst = fixed_.size();
  for (std::size_t row = 0; row < fixed_.size(); ++row) {
    if (!fixed_[row] || !(violation_[row] > options_.constraint_tolerance)) continue;
    if (worst == fixed_.size() || violation_[row] > violation_[worst]) worst = row;
  }
  if (worst == fixed_.size()) return false;
  summary_.constrained.infeasible = name_of(worst);
  finish(
      Termination::INFEASIBLE,
      name_of(worst) + " reads only fixed unknowns and is violated by " + text(violation_[worst]));
  kkt_.feasibility = violation_[worst];
  summary_.final_cost = objective_;
  return true;
}

void AugmentedLagrangian::set_multipliers() {
  for (std::size_t k = 0; k < lambda_.size(); ++k) {
    lambda_[k] = next_lambda_[k];
    shift_[k] = lambda_[k] / mu_;
  }
  set(std::sqrt(mu_), shift_);
}

/// Examines the point of the last minimisation.
void AugmentedLagrangian::look() {
  std::vector<double> rows(model_.model.rows), gradient(model_.model.scalars);
  runtime::Engine& engine = inner_.engine(runtime::Pass::values);
  runtime::evaluate(engine, {.residuals = rows, .gradient = gradient});
  kkt_ = {};
  kkt_.stationarity = projected_max(gradient);
  const double weight = std::sqrt(mu_);
  progress_ = 0;
  for (std::size_t k = 0; k < lambda_.size(); ++k) {
    const double r = rows[rows.size() - lambda_.size() + k];
    next_lambda_[k] = weight * r;
    const double c = shift_[k] - r / weight;  // where r is 0, at least this
    progress_ = std::max(progress_, std::abs(c));
    violation_[k] = equality_[k] ? std::abs(c) : r > 0 ? std::max(0.0, -c) : 0;
    kkt_.feasibility = std::max(kkt_.feasibility, violation_[k]);
    if (!equality_[k])
      kkt_.complementarity = std::max(kkt_.complementarity, std::abs(next_lambda_[k] * c));
  }
  set(0, {});
  runtime::Engine& without = inner_.engine(runtime::Pass::cost_gradient);
  runtime::evaluate(without, {.cost = &objective_, .gradient = gradient});
  summary_.final_cost = objective_;
  scale_ = std::max(largest(gradient), kShareOfStart * first_gradient_);
  if (!(scale_ > 0)) scale_ = 1;
  penalties_.set_weight(weight);
}

bool AugmentedLagrangian::converged() {
  const double bound = options_.kkt_tolerance * scale_;
  const bool feasible =
      progress_ <= options_.constraint_tolerance &&
      kkt_.complementarity <=
          10 * options_.kkt_tolerance * std::max(1.0, kShareOfObjective * std::abs(objective_));
  if (!feasible) return false;
  idle_ = kkt_.stationarity < least_gradient_ / 2 ? 0 : idle_ + 1;
  least_gradient_ = std::min(least_gradient_, kkt_.stationarity);
  const bool rounding = idle_ >= kMostIdle && kkt_.stationarity <= kNearlyStationary * bound;
  return kkt_.stationarity <= bound || rounding;
}

/// The caller or a limit has ended the solve in a minimisation.
bool AugmentedLagrangian::stopped() const {
  const bool by_user = summary_.termination == Termination::USER_SUCCESS ||
                       summary_.termination == Termination::USER_FAILURE;
  return by_user ||
         (!summary_.iterations.empty() &&
          summary_.iterations.back().cumulative_time_in_seconds >= options_.time_limit_seconds);
}

void AugmentedLagrangian::update() {
  if (kkt_.stationarity > bound_ && summary_.termination == Termination::NO_CONVERGENCE) {
    next_lambda_ = lambda_;  // it goes on with the same numbers
    return set_multipliers();
  }
  const double enough = std::max(kEnoughProgress * before_, options_.constraint_tolerance);
  const bool some = progress_ <= std::max(kSomeProgress * best_, options_.constraint_tolerance);
  stalls_ = some ? 0 : stalls_ + 1;
  if (!some) next_lambda_ = lambda_;
  if (progress_ > enough)
    mu_ = std::min(kLargestPenalty, mu_ * (stalls_ < 2 ? kPenaltyGrowth : kStalledGrowth));
  before_ = progress_;
  best_ = std::min(best_, progress_);
  bound_ = std::max(std::min(bound_, kkt_.stationarity) * kBoundDecrease,
                    0.5 * options_.kkt_tolerance * scale_);
  set_multipliers();
}

/// Penalties grew in vain, and the violation is at a minimum of its own.
bool AugmentedLagrangian::infeasible() {
  if (stalls_ < kStalls || kkt_.feasibility <= std::sqrt(options_.constraint_tolerance) *
                                                   std::min(1.0, std::max(first_violation_, 1e-4)))
    return false;
  std::vector<double> zero(lambda_.size(), 0.0), with(model_.model.scalars), alone(with.size());
  set(1, zero);
  runtime::evaluate(inner_.engine(runtime::Pass::gradient), {.gradient = with});
  set(0, {});
  runtime::evaluate(inner_.engine(runtime::Pass::gradient), {.gradient = alone});
  for (std::size_t k = 0; k < with.size(); ++k) with[k] -= alone[k];
  set(std::sqrt(mu_), shift_);  // update() still decides about the next multipliers
  return projected_max(with) <= kStationary * std::max(violation_slope_, 1e-8) * norm(violation_);
}

void AugmentedLagrangian::finish(Termination termination, std::string message) {
  summary_.termination = termination;
  summary_.message = std::move(message);
}

std::string AugmentedLagrangian::name_of(std::size_t row) const {
  return constraint_name(problem_, model_, penalties_.first_row() + row);
}

std::size_t AugmentedLagrangian::worst_row() const {
  return static_cast<std::size_t>(std::ranges::max_element(violation_) - violation_.begin());
}

void AugmentedLagrangian::run() {
  start();
  summary_.initial_cost = first_objective_;
  if (refuse_fixed()) return report();
  ConstrainedSummary& out = summary_.constrained;
  while (true) {
    inner_.minimize(bound_, idle_ % 2 == 1);
    ++out.outer_iterations;
    look();
    if (stopped()) break;
    if (converged()) {
      finish(Termination::CONVERGENCE,
             "constraints and multipliers meet the tolerances: violation " +
                 text(kkt_.feasibility) + ", gradient of the Lagrangian " +
                 text(kkt_.stationarity));
      break;
    }
    if (infeasible()) {
      const std::size_t worst = worst_row();
      out.infeasible = name_of(worst);
      finish(Termination::INFEASIBLE, out.infeasible + " cannot be met: it is violated by " +
                                          text(violation_[worst]) +
                                          " where the violation of all constraints is least");
      break;
    }
    if (out.outer_iterations >= options_.max_outer_iterations) {
      finish(Termination::NO_CONVERGENCE, "maximum number of outer iterations reached: " +
                                              std::to_string(options_.max_outer_iterations) +
                                              "; violation " + text(kkt_.feasibility) +
                                              ", gradient of the Lagrangian " +
                                              text(kkt_.stationarity));
      break;
    }
    update();
  }
  report();
}

void AugmentedLagrangian::report() {
  ConstrainedSummary& out = summary_.constrained;
  summary_.initial_cost = first_objective_;
  out.penalty = mu_;
  out.kkt = kkt_;
  out.multipliers = next_lambda_;
  const double least = kNoMultiplier * largest(next_lambda_);
  for (double& lambda : out.multipliers)
    if (std::abs(lambda) <= least) lambda = 0;
  out.constraints = summarise({.problem = problem_,
                               .model = model_,
                               .engine = inner_.engine(runtime::Pass::jacobian),
                               .first_row = penalties_.first_row(),
                               .fixed = fixed_,
                               .multipliers = out.multipliers,
                               .violation = violation_,
                               .tolerance = options_.constraint_tolerance,
                               .infeasible = summary_.termination == Termination::INFEASIBLE});
}

}  // namespace topograd
