// Multipliers, penalties, and when to stop.
#include "augmented_lagrangian.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace topograd {
namespace {

// Inner tolerances: the first one as a share of the gradient at the start, and their decrease.
constexpr double kFirstBound = 0.1, kBoundDecrease = 0.05;

}  // namespace

void AugmentedLagrangian::start() {
  const std::size_t rows = run_.rows();
  lambda_.assign(rows, 0);
  run_.penalties.set_shifts(lambda_);
  const std::vector<double> gradient = run_.objective_gradient();
  std::vector<double> values(run_.model.model.rows), penalised(gradient.size());
  run_.penalties.set_weight(1);
  runtime::Engine& engine = run_.inner.engine(runtime::Pass::values);
  runtime::evaluate(engine, {.residuals = values, .gradient = penalised});
  double squared = 0;
  for (std::size_t k = 0; k < rows; ++k) {
    run_.violation[k] = std::abs(values[values.size() - rows + k]);
    squared += run_.violation[k] * run_.violation[k];
  }
  run_.start(gradient, std::move(penalised));
  rule_.start(run_.options.initial_penalty, run_.objective, squared,
              static_cast<std::size_t>(std::ranges::count(run_.equality, false)));
  set_multipliers();
  std::vector<double> all = run_.gradient();
  bound_ = kFirstBound * run_.projected_max(all);
}

void AugmentedLagrangian::set_multipliers() {
  lambda_ = run_.multipliers;
  shift_.resize(lambda_.size());
  for (std::size_t k = 0; k < lambda_.size(); ++k) shift_[k] = lambda_[k] / rule_.mu;
  run_.penalties.set_weight(std::sqrt(rule_.mu));
  run_.penalties.set_shifts(shift_);
}

/// Examines the point of the last minimisation.
void AugmentedLagrangian::look() {
  std::vector<double> rows(run_.model.model.rows), gradient(run_.model.model.scalars);
  runtime::Engine& engine = run_.inner.engine(runtime::Pass::values);
  runtime::evaluate(engine, {.residuals = rows, .gradient = gradient});
  KktResiduals& kkt = run_.kkt;
  kkt = {};
  kkt.stationarity = run_.projected_max(gradient);
  const double weight = std::sqrt(rule_.mu);
  progress_ = 0;
  for (std::size_t k = 0; k < lambda_.size(); ++k) {
    const double r = rows[rows.size() - lambda_.size() + k];
    run_.multipliers[k] = weight * r;
    const double c = shift_[k] - r / weight;  // where r is 0, at least this
    progress_ = std::max(progress_, std::abs(c));
    run_.violation[k] = run_.equality[k] ? std::abs(c) : r > 0 ? std::max(0.0, -c) : 0;
    kkt.feasibility = std::max(kkt.feasibility, run_.violation[k]);
    if (!run_.equality[k])
      kkt.complementarity = std::max(kkt.complementarity, std::abs(run_.multipliers[k] * c));
  }
  run_.measure(run_.objective_gradient());
  run_.penalties.set_weight(weight);
}

bool AugmentedLagrangian::converged() {
  return progress_ <= run_.options.constraint_tolerance &&
         run_.kkt.complementarity <= run_.complementarity_bound() && run_.stationary();
}

void AugmentedLagrangian::update() {
  const KktResiduals& kkt = run_.kkt;
  if (kkt.stationarity > bound_ && run_.summary.termination == Termination::NO_CONVERGENCE) {
    run_.multipliers = lambda_;  // it goes on with the same numbers
    return set_multipliers();
  }
  if (!rule_.look(progress_, run_.options.constraint_tolerance)) run_.multipliers = lambda_;
  bound_ =
      std::max(std::min(bound_, kkt.stationarity) * kBoundDecrease, 0.5 * run_.gradient_bound());
  set_multipliers();
}

/// Penalties grew in vain, and the violation is at a minimum of its own.
bool AugmentedLagrangian::infeasible() {
  if (!rule_.in_vain() ||
      run_.kkt.feasibility <= std::sqrt(run_.options.constraint_tolerance) *
                                  std::min(1.0, std::max(run_.first_violation, 1e-4)))
    return false;
  const bool least = run_.violation_is_least(1, 1, std::vector<double>(shift_.size(), 0.0));
  run_.penalties.set_weight(std::sqrt(rule_.mu));  // update() decides about the next multipliers
  run_.penalties.set_shifts(shift_);
  return least;
}

void AugmentedLagrangian::run() {
  start();
  run_.summary.initial_cost = run_.first_objective;
  ConstrainedSummary& out = run_.summary.constrained;
  const auto ended = [&] {
    if (run_.stopped()) return true;
    if (converged()) {
      run_.finish_converged();
    } else if (infeasible()) {
      run_.finish_infeasible();
    } else if (out.outer_iterations >= run_.options.max_outer_iterations) {
      run_.finish_unconverged();
    } else {
      return false;
    }
    return true;
  };
  bool over = run_.refuse_fixed();
  while (!over) {
    run_.inner.minimize(bound_, run_.gradients.idle() % 2 == 1);
    ++out.outer_iterations;
    look();
    over = ended();
    if (!over) update();
  }
  out.penalty = rule_.mu;
  run_.report();
}

}  // namespace topograd
