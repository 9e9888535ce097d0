// The central path: barriers, multipliers, and when to stop.
#include "barrier.hpp"

#include "../step_control/convergence.hpp"
#include "constraint_values.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

namespace topograd {
namespace {

// μ falls to this share from one minimisation to the next.
constexpr double kBarrierDecrease = 0.1;
// The last μ, as a share of what complementarity allows.
constexpr double kLastShare = 0.1;
// Inner tolerances: the first one as a share of the gradient at the start, and their decrease.
constexpr double kFirstBound = 0.1, kBoundDecrease = 0.1;
// With equalities, the share of the gradient at the start of a minimisation that may be left, but
// not less than a share of what rounding does to it; and the share with which it has done its work.
constexpr double kMostLeft = 0.01, kRoundingShare = 0.1, kSolved = 1e-3;
// One that leaves this share has done nothing, and the next one with the same numbers would do no
// more: multipliers follow.
constexpr double kIdle = 0.9;
// A start is on the central path if −μ ∇Σ log c cancels all but this share of the gradient.
constexpr double kOnPath = 0.1;
// Range of the first μ off the path, as a share of the objective, and at least of 1.
constexpr double kLeastFirst = 1e-3, kLargestFirst = 1e3;
// The share of c, on its way to its next value, that an extrapolation must keep.
constexpr double kKept = 0.1;
constexpr int kMostCuts = 4;
// Shift of inequalities on fixed unknowns: they may be 0, and add a constant to the cost.
constexpr double kAboveZero = 1;
// Share of ½ ‖d c‖² by which a least violation may be above it.
constexpr double kLeastShare = 0.1;
// A violation that a step takes below this share is not least.
constexpr double kFallsOn = 0.9;
// An inequality keeps this share of λ = μ / c at least.
constexpr double kKeptMultiplier = 0.5;
// Multipliers are fitted once μ is at most this many times the last one.
constexpr double kNearEnd = 1.01;

}  // namespace

/// The end of the solve if an inequality that could be changed is not above 0.
bool Barrier::refuse_outside() {
  std::size_t worst = c_.size();
  for (std::size_t row = 0; row < c_.size(); ++row) {
    run_.outside[row] = !run_.equality[row] && !run_.fixed[row] && !(c_[row] > 0);
    if (!run_.outside[row]) continue;
    const bool worse = worst == c_.size() || !(c_[row] >= c_[worst]);
    if (worse) worst = row;
  }
  if (worst == c_.size()) return false;
  run_.kkt.feasibility = largest(run_.violation);
  run_.summary.constrained.infeasible = run_.name_of(worst);
  run_.finish(Termination::INFEASIBLE,
              run_.name_of(worst) + " is " + short_text(c_[worst]) +
                  " at the start; barrier starts where every inequality is above 0: move the start "
                  "inside, or use augmented_lagrangian");
  return true;
}

/// False if the solve has ended.
bool Barrier::start() {
  const std::size_t rows = run_.rows();
  const runtime::Engine& engine = run_.inner.engine(runtime::Pass::cost);
  c_ = constraint_values(run_.model, engine, run_.penalties.first_row(), run_.inner.point());
  shift_.assign(rows, 0);
  lambda_.assign(rows, 0);
  run_.penalties.set_scales(run_.scale);
  const std::vector<double> gradient = run_.objective_gradient();
  run_.first_objective = run_.objective;
  run_.measure(gradient);
  run_.measure_rows();
  double squared = 0;
  for (std::size_t row = 0; row < rows; ++row) {
    (run_.equality[row] ? has_equalities_ : has_inequalities_) = true;
    run_.violation[row] = run_.violation_by(row, c_[row]);
    if (run_.equality[row]) squared += std::pow(run_.scale[row] * c_[row], 2);
    if (!run_.equality[row] && run_.fixed[row]) shift_[row] = kAboveZero;
  }
  run_.penalties.set_shifts(shift_);
  if (run_.refuse_fixed() || refuse_outside()) return false;
  run_.keep_if_met();
  run_.penalties.set_weights(1, 0);
  run_.start(gradient, run_.gradient());
  rule_.start({.asked = run_.options.initial_penalty,
               .cost = run_.objective,
               .squared_violation = squared,
               .inequalities = 0,
               .curvature = run_.curvature});
  mu_ = first_barrier(gradient);
  set_numbers();
  bound_ = std::max(kFirstBound * run_.projected_max(run_.gradient()), 0.5 * run_.gradient_bound());
  return true;
}

/// The μ of the central path at the start, or one whose barrier is as steep as the objective.
double Barrier::first_barrier(std::vector<double> objective) {
  if (run_.options.initial_barrier > 0) return run_.options.initial_barrier;
  const double least = least_barrier();
  if (!has_inequalities_) return least;
  run_.penalties.set_weights(0, 1);
  std::vector<double> barrier = run_.gradient();
  for (std::size_t k = 0; k < barrier.size(); ++k) barrier[k] -= objective[k];
  objective = run_.in_units(std::move(objective));
  barrier = run_.in_units(std::move(barrier));
  const double both = -dot(barrier, objective);
  const double steep = dot(barrier, barrier);
  const double slope = dot(objective, objective);
  const double unit = std::max(run_.cost_unit(), std::abs(run_.objective));
  if (!(steep > 0)) return kLeastFirst * unit;
  const double fitted = both / steep;
  const bool on_path = fitted > 0 && slope - fitted * both <= kOnPath * kOnPath * slope;
  if (on_path) return std::max(fitted, least);
  return std::clamp(std::sqrt(slope / steep), kLeastFirst * unit, kLargestFirst * unit);
}

void Barrier::set_numbers() {
  run_.penalties.set_weights(std::sqrt(rule_.mu), has_inequalities_ ? mu_ : 0);
  if (!has_equalities_) return;
  run_.penalties.set_shifts(shift_);
  run_.penalties.set_scales(run_.scale);  // branches may have moved rows to other topologies
}

double Barrier::least_barrier() const { return kLastShare * run_.complementarity_bound(); }

/// Violations and multipliers at the point of the last minimisation.
void Barrier::look_at_rows(std::span<const double> values) {
  c_.assign(values.begin(), values.end());
  run_.kkt = {};
  progress_ = 0;
  for (std::size_t row = 0; row < c_.size(); ++row) {
    const double c = c_[row];
    if (run_.equality[row]) {
      const double scale = run_.scale[row];
      run_.multipliers[row] = rule_.mu * scale * (shift_[row] - scale * c);
      if (std::abs(c) > run_.tolerance(row)) progress_ = std::max(progress_, scale * std::abs(c));
    } else {
      run_.multipliers[row] = run_.fixed[row] ? 0 : mu_ / c;
    }
    run_.violation[row] = run_.violation_by(row, c);
    run_.kkt.feasibility = std::max(run_.kkt.feasibility, run_.violation[row]);
  }
}

/// Replaces μ / c by multipliers without the rounding of c, where they are not nearly 0.
void Barrier::sharpen(std::vector<double>& gradient) {
  std::vector<std::size_t> active;
  for (std::size_t row = 0; row < c_.size(); ++row)
    if (!run_.equality[row] && !run_.fixed[row] && is_active(row)) active.push_back(row);
  std::vector<double> units;
  for (const std::size_t row : active) units.push_back(run_.multipliers[row]);
  fit_multipliers(run_, {.rows = active, .units = units, .kept = kKeptMultiplier}, gradient);
}

/// Replaces multipliers of equalities, which are met, by others that balance the gradient, if they
/// do it better.
void Barrier::balance(std::vector<double> gradient) {
  std::vector<std::size_t> met;
  for (std::size_t row = 0; row < c_.size(); ++row)
    if (run_.equality[row] && !run_.fixed[row]) met.push_back(row);
  balance_multipliers(run_, met, std::move(gradient));
}

/// λ is larger than c, in the units of the objective's curvature and of the distance from the
/// constraint.
bool Barrier::is_active(std::size_t row) const {
  const double unit = run_.curvature > 0 ? run_.curvature : run_.cost_unit();
  return run_.multipliers[row] > unit * run_.scale[row] * run_.scale[row] * c_[row];
}

void Barrier::look() {
  const runtime::Engine& engine = run_.inner.engine(runtime::Pass::cost);
  look_at_rows(
      constraint_values(run_.model, engine, run_.penalties.first_row(), run_.inner.point()));
  std::vector<double> gradient = run_.gradient();
  run_.measure(run_.objective_gradient());
  run_.measure_rows();
  run_.keep_if_met();
  if (mu_ <= kNearEnd * least_barrier()) sharpen(gradient);
  run_.measure_stationarity(gradient);
  if (progress_ == 0 && run_.stationarity > run_.gradient_bound()) balance(std::move(gradient));
  for (std::size_t row = 0; row < c_.size(); ++row)
    if (!run_.equality[row])
      run_.kkt.complementarity =
          std::max(run_.kkt.complementarity, std::abs(run_.multipliers[row] * c_[row]));
  set_numbers();
}

bool Barrier::converged() {
  return progress_ == 0 && (!has_inequalities_ || mu_ <= kNearEnd * least_barrier()) &&
         run_.kkt.complementarity <= run_.complementarity_bound() && run_.stationary();
}

/// The barrier may be what keeps equalities violated: at a minimum of the penalties μ ½ ‖d c‖² with
/// the barrier, ½ ‖d c‖² may be above its least value inside of m inequalities by m times the ratio
/// of the weights. Source: Nocedal and Wright, Numerical Optimization, 2nd ed., section 19.6.
bool Barrier::holds_violation() const {
  double count = 0;
  for (std::size_t row = 0; row < c_.size(); ++row)
    count += run_.equality[row] || run_.fixed[row] ? 0 : 1;
  const double violation = run_.scaled_violation();
  return count * mu_ > kLeastShare * rule_.mu * violation * violation / 2;
}

/// Penalties of equalities grew in vain, and together with the barrier they are at a minimum.
bool Barrier::infeasible() {
  if (!rule_.in_vain() || run_.nearly_feasible() || holds_violation()) return false;
  std::vector<double> shifts = shift_;
  for (std::size_t row = 0; row < shifts.size(); ++row)
    if (run_.equality[row]) shifts[row] = 0;
  const bool least =
      run_.violation_is_least(std::sqrt(rule_.mu), has_inequalities_ ? mu_ : 0, shifts);
  run_.penalties.set_shifts(shift_);
  set_numbers();
  // Inequalities may be in the way of a step that ignores how far inside it must stay.
  return least && (has_inequalities_ || violation_left(run_) > kFallsOn);
}

void Barrier::update() {
  if (run_.stationarity > bound_ && run_.summary.termination == Termination::NO_CONVERGENCE)
    return;  // it goes on with the same numbers
  double growth = 1;
  if (has_equalities_) {
    const double penalty = rule_.mu;
    rule_.largest = run_.largest_penalty();
    const bool falls = rule_.look(progress_, run_.least_tolerance(),
                                  run_.stationarity <= std::max(bound_, kSolved * begin_));
    const bool follows = falls || run_.nearly_feasible() || run_.stationarity >= kIdle * begin_;
    for (std::size_t row = 0; row < c_.size(); ++row) {
      if (!run_.equality[row]) continue;
      const double lambda = follows ? run_.multipliers[row] : lambda_[row];
      lambda_[row] = lambda;
      shift_[row] = lambda / (rule_.mu * run_.scale[row]);
    }
    if (rule_.stalls > 1) growth = rule_.mu / penalty;
  }
  bound_ =
      std::max(std::min(bound_, run_.stationarity) * kBoundDecrease, 0.5 * run_.gradient_bound());
  const double before = mu_;
  // While penalties grow in vain, the barrier keeps its distance from them, once that is small:
  // what remains in the end is the least violation inside of the inequalities.
  if (growth == 1)
    mu_ = std::min(mu_, std::max(kBarrierDecrease * mu_, least_barrier()));
  else if (!holds_violation())
    mu_ *= growth;
  set_numbers();
  if (has_inequalities_ && mu_ < before) extrapolate(before, mu_);
  if (!has_equalities_) return;
  // A looser tolerance could be met before x moves, and the violation would stay for ever.
  begin_ = run_.projected_max(run_.gradient());
  bound_ = std::max(std::min(bound_, kMostLeft * begin_),
                    kRoundingShare * rule_.mu * run_.gradient_rounding);
}

/// True if every inequality keeps a share of its value at the last minimiser.
bool Barrier::inside(std::span<const double> x, double share) {
  const runtime::Engine& engine = run_.inner.engine(runtime::Pass::cost);
  const std::vector<double> c =
      constraint_values(run_.model, engine, run_.penalties.first_row(), x);
  for (std::size_t row = 0; row < c.size(); ++row)
    if (!run_.equality[row] && !run_.fixed[row] && !(c[row] >= share * c_[row])) return false;
  return true;
}

/// x of the next minimiser but one, on the line through the last two.
///
///   length  of the step, as a share of the distance between these
std::vector<double> Barrier::ahead(double length) const {
  const std::span<const double> x = run_.inner.point();
  std::vector<double> step(x.size()), coordinates(run_.space.size()), next(x.size()), basis;
  for (std::size_t k = 0; k < x.size(); ++k) step[k] = length * (x[k] - last_[k]);
  if (!run_.space.basis(x, basis)) return {x.begin(), x.end()};
  run_.space.project(basis, step, coordinates);
  for (const TangentSpace::Block& block : run_.space.blocks()) {
    for (std::uint32_t t = 0; t < block.tangent; ++t) {
      double squared = 0;  // a step along a tangent counts in its units
      for (std::uint32_t k = 0; k < block.width; ++k)
        squared += std::pow(basis[block.basis + k * block.tangent + t], 2);
      if (squared > 0) coordinates[block.column + t] /= squared;
    }
  }
  if (!run_.space.plus(x, coordinates, next)) return {x.begin(), x.end()};
  return next;
}

/// Moves along the line through the last two minimisers to the next μ: on the path x is a smooth
/// function of μ.
void Barrier::extrapolate(double before, double after) {
  const std::span<const double> at = run_.inner.point();
  std::vector<double> x(at.begin(), at.end());
  if (!last_.empty()) {
    double length = (before - after) / (last_mu_ - before);
    for (int cut = 0; cut < kMostCuts; ++cut, length /= 2) {
      const std::vector<double> next = ahead(length);
      if (!inside(next, kKept * after / before)) continue;
      run_.inner.move(next);
      break;
    }
  }
  last_ = std::move(x);
  last_mu_ = before;
}

/// Sets weights and shifts of the residuals that penalise constraints to what an augmented
/// Lagrangian leaves: derivatives of the solution and covariances read multipliers from them.
void Barrier::leave_multipliers() {
  for (std::size_t row = 0; row < c_.size(); ++row) {
    const double lambda = run_.multipliers[row];
    const bool active = run_.equality[row] || (!run_.fixed[row] && is_active(row));
    if (!active) run_.multipliers[row] = 0;
    const double scale = run_.scale[row];
    shift_[row] = active ? lambda / scale + scale * c_[row] : 0;
  }
  run_.penalties.set_weight(1);
  run_.penalties.set_shifts(shift_);
}

void Barrier::run() {
  ConstrainedSummary& out = run_.summary.constrained;
  if (!start()) return run_.report();
  for (bool over = false; !over;) {
    run_.inner.minimize(bound_, run_.units.now(), false);
    ++out.outer_iterations;
    look();
    over = run_.ended([this] { return converged(); }, [this] { return infeasible(); });
    if (!over) update();
  }
  out.penalty = has_equalities_ ? rule_.mu : 0;
  out.barrier = has_inequalities_ ? mu_ : 0;
  leave_multipliers();
  run_.report();
}

}  // namespace topograd
