// Multipliers, penalties, and when to stop.
#include "augmented_lagrangian.hpp"

#include "../step_control/convergence.hpp"
#include "constraint_values.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace topograd {
namespace {

// Inner tolerances: share of the gradient at the start of a minimisation that it must remove, and
// the decrease of the tolerance from one to the next.
constexpr double kFirstBound = 0.1, kMostLeft = 0.01, kBoundDecrease = 0.05;
// μ falls by this factor where it keeps minimisations from their tolerance: if a larger first one
// than would be chosen was asked for, after so many in a row that have used up their steps and left
// more than this share of the gradient; and once where rounding ends a minimisation that hardly
// changes a small violation. Each minimisation that then reaches its tolerance lets μ grow to so
// many times what it may be.
constexpr double kRetreat = 10;
constexpr int kMostFailed = 2;
constexpr double kLittleLess = 0.1, kRise = 2;
// No minimisation is asked for less than this share of what rounding does to its gradient.
constexpr double kRoundingShare = 0.1;
// Nor for less than this share of the unit of gradients.
constexpr double kLeastShare = 1e-14;
// A minimisation that reduces the gradient to this share has done its work, whatever ended it.
constexpr double kSolved = 1e-3;
// Units of unknowns follow the point, so that a gradient that met the tolerance may be larger by so
// much afterwards.
constexpr double kOfUnits = 10;
// One that leaves this share of it has done nothing, and the next one with the same numbers would
// do no more: multipliers follow.
constexpr double kIdle = 0.9;
// Change of the cost, in units of its rounding, that is none.
constexpr double kSameCost = 100;
// A violation that a step takes below this share is not least.
constexpr double kFallsOn = 0.9;
// A way back to a point that met every constraint multiplies the first μ by this, so often.
constexpr double kGrowthBack = 1000;
constexpr int kMostReturns = 3;

}  // namespace

void AugmentedLagrangian::start() {
  const std::size_t rows = run_.rows();
  lambda_.assign(rows, 0);
  run_.penalties.set_shifts(lambda_);
  run_.penalties.set_scales(run_.scale);
  const std::vector<double> gradient = run_.objective_gradient();
  run_.first_objective = run_.objective;
  run_.measure_units(gradient);
  run_.measure_rows();
  std::vector<double> values(run_.model.model.rows), penalised(gradient.size());
  run_.penalties.set_weight(1);
  runtime::Engine& engine = run_.inner.engine(runtime::Pass::values);
  runtime::evaluate(engine, {.residuals = values, .gradient = penalised});
  double squared = 0;
  for (std::size_t k = 0; k < rows; ++k) {
    const double scaled = std::abs(values[values.size() - rows + k]);
    run_.violation[k] = scaled / run_.scale[k];
    squared += scaled * scaled;
  }
  run_.start(gradient, std::move(penalised));
  PenaltyStart at{
      .cost = run_.objective,
      .squared_violation = squared,
      .inequalities = static_cast<std::size_t>(std::ranges::count(run_.equality, false)),
      .curvature = run_.curvature};
  rule_.start(at);
  chosen_ = rule_.mu;
  at.asked = run_.options.initial_penalty;
  rule_.start(at);
  first_ = rule_.mu;
  run_.keep_if_met();
  set_multipliers();
  bound_ = kFirstBound * begin_;
}

void AugmentedLagrangian::set_multipliers() {
  lambda_ = run_.multipliers;
  shift_.resize(lambda_.size());
  for (std::size_t k = 0; k < lambda_.size(); ++k)
    shift_[k] = lambda_[k] / (rule_.mu * run_.scale[k]);
  run_.penalties.set_weight(std::sqrt(rule_.mu));
  run_.penalties.set_shifts(shift_);
  run_.penalties.set_scales(run_.scale);  // branches may have moved rows to other topologies
  begin_ = run_.projected_max(run_.gradient());
}

/// Examines the point of the last minimisation.
void AugmentedLagrangian::look() {
  std::vector<double> rows(run_.model.model.rows), gradient(run_.model.model.scalars);
  runtime::Engine& engine = run_.inner.engine(runtime::Pass::values);
  runtime::evaluate(engine, {.residuals = rows, .gradient = gradient});
  KktResiduals& kkt = run_.kkt;
  kkt = {};
  const double weight = std::sqrt(rule_.mu);
  progress_ = 0;
  c_ = constraint_values(run_.model, engine, run_.penalties.first_row(), run_.inner.point());
  for (std::size_t k = 0; k < lambda_.size(); ++k) {
    const double r = rows[rows.size() - lambda_.size() + k];
    run_.multipliers[k] = weight * run_.scale[k] * r;
    // min(c, λ / (μ d²)) of an inequality
    const double distance = r == 0 ? std::min(c_[k], shift_[k] / run_.scale[k]) : c_[k];
    if (std::abs(distance) > run_.tolerance(k))
      progress_ = std::max(progress_, run_.scale[k] * std::abs(distance));
    run_.violation[k] = run_.violation_by(k, c_[k]);
    kkt.feasibility = std::max(kkt.feasibility, run_.violation[k]);
  }
  run_.measure(run_.objective_gradient());
  run_.penalties.set_weight(weight);
  run_.measure_rows();
  run_.keep_if_met();
  run_.measure_stationarity(gradient);
  reached_ = run_.stationarity;
  if (progress_ == 0 && reached_ > run_.gradient_bound()) balance(std::move(gradient));
  for (std::size_t k = 0; k < lambda_.size(); ++k)
    if (!run_.equality[k])
      kkt.complementarity = std::max(kkt.complementarity, std::abs(run_.multipliers[k] * c_[k]));
}

/// Replaces λ = μ d² (s / d − c) of active rows by multipliers that balance the
/// gradient, if they do it better.
///
///   gradient  of the Lagrangian
void AugmentedLagrangian::balance(std::vector<double> gradient) {
  std::vector<std::size_t> active;
  for (std::size_t row = 0; row < run_.rows(); ++row)
    if (!run_.fixed[row] && (run_.equality[row] || run_.multipliers[row] > 0))
      active.push_back(row);
  balance_multipliers(run_, active, std::move(gradient));
}

/// Minimises, and examines the point. Near the end rounding may carry a minimisation to a larger
/// gradient at the same cost, where rows are met and only the gradient is left to fall: then the
/// point where it began is better.
void AugmentedLagrangian::minimize() {
  const bool near = run_.gradients.nearly(begin_, run_.options.kkt_tolerance);
  const double cost = near ? run_.cost() : 0;
  std::vector<double> x;
  if (near) x.assign(run_.inner.point().begin(), run_.inner.point().end());
  run_.inner.minimize(bound_, run_.units.now(), run_.gradients.idle() % 2 == 1);
  ++run_.summary.constrained.outer_iterations;
  look();
  const bool limited = run_.summary.termination == Termination::NO_CONVERGENCE;
  if (!near || limited || progress_ > 0 || !(reached_ > begin_)) return;
  const double size = std::max(std::abs(cost), std::abs(run_.objective));
  const double rounding = kSameCost * rounding_unit(run_.options.precision) * size;
  if (cost - run_.cost() > rounding) return;
  run_.inner.move(x);
  look();
}

bool AugmentedLagrangian::converged() {
  return progress_ == 0 && run_.kkt.complementarity <= run_.complementarity_bound() &&
         run_.stationary();
}

/// False if μ is no larger than that.
bool AugmentedLagrangian::lower_penalty(double least) {
  if (!(rule_.mu > least)) return false;
  rule_.mu = ceiling_ = std::max(rule_.mu / kRetreat, least);
  rule_.forget();
  return true;
}

/// After a minimisation that has used up its steps: the next one goes on with the same multipliers,
/// and with a smaller μ if that may be the reason. It is none where μ was chosen: minimisations may
/// need more steps than they have.
void AugmentedLagrangian::go_on() {
  run_.multipliers = lambda_;
  failed_ = reached_ > kLittleLess * begin_ ? failed_ + 1 : 0;
  const bool falls =
      run_.options.initial_penalty > chosen_ && failed_ >= kMostFailed && lower_penalty(chosen_);
  set_multipliers();
  if (!falls) return;
  failed_ = 0;
  bound_ = std::max(bound_, kMostLeft * begin_);
}

/// True if μ was so large, as it can be where it is asked for, that multipliers are rounding: the
/// next minimisation has the largest one that is not, and the same multipliers.
bool AugmentedLagrangian::bound_penalty() {
  const double most = std::max(chosen_, run_.largest_penalty());
  if (!(rule_.mu > kRetreat * most)) return false;
  rule_.mu = most;
  rule_.forget();
  run_.multipliers = lambda_;
  set_multipliers();
  bound_ = std::max(bound_, kMostLeft * begin_);
  return true;
}

void AugmentedLagrangian::update() {
  if (in_vain() && may_go_back()) return go_back();
  if (bound_penalty()) return;
  const bool limited = run_.summary.termination == Termination::NO_CONVERGENCE;
  // A minimisation that rounding has ended is solved as well as it can be.
  const double least = limited ? 0 : rule_.mu * run_.gradient_rounding;
  const double bound = limited ? bound_ : kOfUnits * bound_;
  const bool solved = reached_ <= std::max({bound, kSolved * begin_, least});
  rule_.largest = std::min(ceiling_, run_.largest_penalty());
  // Nor does one go on that has done nothing, unless μ is larger than it would be chosen.
  const bool idle = reached_ >= kIdle * begin_ && !(run_.options.initial_penalty > chosen_);
  if (!solved && limited && !idle) return go_on();
  failed_ = 0;
  if (!solved && run_.nearly_feasible() && progress_ > rule_.before / 2 && !retreated_)
    retreated_ = lower_penalty(0);
  if (solved) ceiling_ *= kRise;
  // Once there is almost no violation, the least so far may be luck, and multipliers go on.
  const bool falls = rule_.look(progress_, run_.least_tolerance(), solved);
  const bool follows = falls || run_.nearly_feasible() || reached_ >= kIdle * begin_;
  if (!follows) run_.multipliers = lambda_;
  bound_ = std::max(std::min(bound_, reached_) * kBoundDecrease, 0.5 * run_.gradient_bound());
  set_multipliers();
  // A looser tolerance could be met before x moves, and the violation would stay for ever.
  bound_ = std::max(std::min(bound_, kMostLeft * begin_),
                    std::max(kRoundingShare * rule_.mu * run_.gradient_rounding,
                             run_.gradients.bound(kLeastShare)));
  // Rows are met, so that only the gradient is left to fall, and rounding shows how far it can.
  if (progress_ == 0) bound_ = std::min(bound_, kMostLeft * begin_);
}

/// Sets shifts from which r gives balanced multipliers: derivatives of the solution read them.
void AugmentedLagrangian::leave_multipliers() {
  for (std::size_t k = 0; k < c_.size(); ++k) {
    const double scale = run_.scale[k], lambda = run_.multipliers[k];
    const bool active = run_.equality[k] || lambda > 0;
    shift_[k] = active ? lambda / (rule_.mu * scale) + scale * c_[k]
                       : std::min(0.0, 2 * scale * c_[k]);  // below d c, so that r is 0
  }
  run_.penalties.set_shifts(shift_);
}

bool AugmentedLagrangian::in_vain() const { return rule_.in_vain() && !run_.nearly_feasible(); }

/// Penalties grew in vain, and the violation is at a minimum of its own.
bool AugmentedLagrangian::infeasible() {
  if (!in_vain() || may_go_back()) return false;
  const bool least = run_.violation_is_least(1, 1, std::vector<double>(shift_.size(), 0.0));
  run_.penalties.set_weight(std::sqrt(rule_.mu));  // update() decides about the next multipliers
  run_.penalties.set_shifts(shift_);
  return least && violation_left(run_) > kFallsOn && !run_.violation_falls_beside();
}

bool AugmentedLagrangian::may_go_back() const {
  return !run_.met().empty() && returns_ < kMostReturns;
}

/// From where penalties grow in vain to the last point that met every constraint. From there f + μ
/// ½ ‖d c‖² falls, so that a violation is small if μ is large.
void AugmentedLagrangian::go_back() {
  ++returns_;
  run_.inner.move(run_.met());
  rule_.mu = first_ = kGrowthBack * first_;
  rule_.forget();
  std::ranges::fill(run_.multipliers, 0.0);
  set_multipliers();
  bound_ = kFirstBound * begin_;
}

void AugmentedLagrangian::run() {
  start();
  run_.summary.initial_cost = run_.first_objective;
  ConstrainedSummary& out = run_.summary.constrained;
  bool over = run_.refuse_fixed();
  while (!over) {
    minimize();
    over = run_.ended([this] { return converged(); }, [this] { return infeasible(); });
    if (!over) update();
  }
  out.penalty = rule_.mu;
  leave_multipliers();
  run_.report();
}

}  // namespace topograd
