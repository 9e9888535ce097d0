// Penalties, units of unknowns, rows of constraints, their conditions, and ends of solves.
#include "constrained_run.hpp"

#include "../../frontend/problem.hpp"
#include "../../ir/machine/formatted.hpp"
#include "../step_control/convergence.hpp"
#include "constraint_values.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace topograd {
namespace {

// The unit is at least this share of that at the start.
constexpr double kShareOfStart = 1e-2;
// Units below this share of the largest count as this share.
constexpr double kLeast = 1e-100;

}  // namespace

UnknownUnits::UnknownUnits(const ProblemModel& model, const TangentSpace& space)
    : model_(model),
      space_(space),
      now_(space.scalars(), 1),
      first_(space.scalars(), 0),
      filled_(space.scalars(), false) {}

std::vector<double> UnknownUnits::squares(runtime::Engine& engine) const {
  const Problem& problem = *model_.problem;
  std::vector<double> out(now_.size()), values;
  const bool curves = !problem.has_manifolds() && problem.host_blocks().empty();
  for (std::size_t t = 0; t < model_.topologies.size(); ++t) {
    const BlockKind kind = problem.kind(model_.topologies[t]);
    const runtime::Term& term = model_.model.terms[t];
    const std::size_t count = term.batch->size(), slots = term.batch->parameter_columns();
    if (kind == BlockKind::residual) {
      const std::size_t rows = term.topology->program.outputs.size();
      values.resize(count * rows * slots);
      engine.jacobian(t, values);
      for (std::size_t k = 0; k < values.size(); ++k)
        out[term.batch->index(k / (rows * slots), static_cast<std::uint32_t>(k % slots))] +=
            values[k] * values[k];
    } else if (kind == BlockKind::energy && curves) {
      const std::size_t packed = slots * (slots + 1) / 2;
      values.resize(count * packed);
      runtime::second_derivatives(engine).hessian(t, false, values);
      for (std::size_t i = 0; i < count; ++i) {
        const double* entry = &values[i * packed];
        for (std::uint32_t s = 0; s < slots; entry += slots - s, ++s)
          out[term.batch->index(i, s)] += std::abs(*entry);
      }
    }
  }
  return out;
}

void UnknownUnits::join_blocks(std::vector<double>& units) const {
  for (const TangentSpace::Block& block : space_.blocks()) {
    const std::span<double> of_block = std::span(units).subspan(block.offset, block.width);
    std::ranges::fill(of_block, *std::ranges::max_element(of_block));
  }
}

void UnknownUnits::measure(runtime::Engine& engine, std::span<const double> gradient, double cost) {
  std::vector<double> found = squares(engine);
  const bool slopes = cost > 0 && model_.problem->energy_count() > 0;
  for (std::uint32_t k = 0; k < found.size(); ++k) {
    if (slopes) found[k] = std::max(found[k], gradient[k] * gradient[k] / cost);
    found[k] = is_free(k) && std::isfinite(found[k]) ? std::sqrt(found[k]) : 0;
  }
  join_blocks(found);
  if (!(largest_ > 0)) largest_ = *std::ranges::max_element(found);
  for (std::uint32_t k = 0; k < found.size(); ++k) {
    if (!is_free(k)) continue;
    const double unit = largest_ > 0 ? found[k] / largest_ : 0;
    if (!(first_[k] > 0) && unit > 0) first_[k] = std::max(unit, kLeast);
    now_[k] = std::max(unit, (filled_[k] ? 1 : kShareOfStart) * first_[k]);
  }
}

bool UnknownUnits::missing() const {
  return std::ranges::any_of(now_, [](double unit) { return !(unit > 0); });
}

void UnknownUnits::pass_on(std::size_t rows, std::span<const Entry> entries) {
  std::vector<double> squared(rows), found(now_.size());
  for (const Entry& entry : entries)
    if (is_free(entry.scalar) && now_[entry.scalar] > 0)
      squared[entry.row] += std::pow(entry.derivative / now_[entry.scalar], 2);
  for (const Entry& entry : entries) {
    if (now_[entry.scalar] > 0 || !(squared[entry.row] > 0)) continue;
    const double unit = std::abs(entry.derivative) / std::sqrt(squared[entry.row]);
    if (std::isfinite(unit)) found[entry.scalar] = std::max(found[entry.scalar], unit);
  }
  join_blocks(found);
  for (std::size_t k = 0; k < found.size(); ++k)
    if (!(now_[k] > 0) && found[k] > 0) now_[k] = std::max(found[k], kLeast);
}

void UnknownUnits::fill(std::size_t rows, std::span<const Entry> entries) {
  std::vector<bool> was_missing(now_.size());
  for (std::size_t k = 0; k < now_.size(); ++k) was_missing[k] = !(now_[k] > 0);
  pass_on(rows, entries);
  for (std::size_t k = 0; k < now_.size(); ++k) {
    if (!was_missing[k]) continue;
    filled_[k] = now_[k] > 0;
    if (!filled_[k]) now_[k] = 1;
    first_[k] = now_[k];
  }
}

namespace {

// The violation must fall to this share from one minimisation to the next, or μ grows.
constexpr double kEnoughProgress = 0.25;
// Above this share it has not fallen at all, and multipliers stay.
constexpr double kSomeProgress = 0.9;
constexpr double kPenaltyGrowth = 10;
// Growth of μ in vain before a problem may be called infeasible, and its factor meanwhile.
constexpr int kStalls = 5;
constexpr double kStalledGrowth = 100;
// Range of the first μ, and its upper end where there are many inequalities: it falls with the
// square of their number from `kManyRows` on. Measured on meshes in contact (docs/notes/steps.md).
constexpr double kLeastPenalty = 1e-3, kLargestFirstPenalty = 300;
constexpr double kManyRows = 1000, kLargestOfMany = 1;

double largest_first(std::size_t inequalities) {
  const double share = kManyRows / std::max(kManyRows, static_cast<double>(inequalities));
  return std::max(kLargestOfMany, kLargestFirstPenalty * share * share);
}

// Energies that are not convex fall without end where penalties do not hold them: their unit of μ
// is so many times their curvature at the start. Two of the 48 problems of Hock and Schittkowski
// need more than 10.
constexpr double kOfEnergies = 100;

// Slope of the violation, as a share of that at the start, below which the violation is stationary.
constexpr double kStationary = 1e-3;
// Products λ c are compared with this share of the objective, and at least with cost_unit().
constexpr double kShareOfObjective = 1e-4;
// Distance from a row within which it counts as met, by the one along which residuals change by as
// much as they are, in units of constraint_tolerance.
constexpr double kFarthest = 100;
// A row counts as met within this many units of the rounding of x.
constexpr double kRoundingUnits = 64;
// The share of the objective's gradient that rounding of penalties may reach.
constexpr double kPenaltyRounding = 1e-7;
// Multipliers that count as 0, as a share of the largest.
constexpr double kNoMultiplier = 1e-10;

}  // namespace

void PenaltyRule::start(const PenaltyStart& at) {
  const double unit = at.curvature > 0 ? at.curvature : 1;
  const double cost = std::max(1.0, std::abs(at.cost) / unit);
  mu = at.asked > 0 ? at.asked
                    : unit * std::clamp(10 * cost / std::max(1.0, at.squared_violation / 2),
                                        kLeastPenalty, largest_first(at.inequalities));
}

bool PenaltyRule::look(double violation, double met, bool solved) {
  const bool enough = solved && violation <= std::max(kEnoughProgress * before, met);
  const bool some = enough || violation <= std::max(kSomeProgress * best, met);
  stalls = some ? 0 : stalls + 1;
  if (solved && !enough)
    mu = std::max(mu, std::min(largest, mu * (stalls < 2 ? kPenaltyGrowth : kStalledGrowth)));
  before = violation;
  if (violation > 0 && solved) best = std::min(best, violation);
  return some;
}

void PenaltyRule::forget() {
  best = before = std::numeric_limits<double>::infinity();
  stalls = 0;
}

bool PenaltyRule::in_vain() const { return stalls >= kStalls; }

double largest(std::span<const double> numbers) {
  double most = 0;
  for (const double number : numbers) {
    if (std::isnan(number)) return number;
    most = std::max(most, std::abs(number));
  }
  return most;
}

std::string short_text(double number) { return platform::formatted("%.6g", number); }

ConstrainedRun::ConstrainedRun(Problem& problem_, const ProblemModel& model_,
                               const SolverOptions& options_, Summary& summary_,
                               InnerSolves& inner_)
    : problem(problem_),
      model(model_),
      options(options_),
      summary(summary_),
      inner(inner_),
      penalties(problem_),
      space(problem_),
      units(model_, space) {
  list_rows();
}

void ConstrainedRun::list_rows() {
  const std::size_t count = penalties.rows();
  equality.assign(count, false);
  fixed.assign(count, false);
  multipliers.assign(count, 0);
  violation.assign(count, 0);
  outside.assign(count, false);
  scale.assign(count, 1);
  rounding.assign(count, 0);
  norms_.assign(count, 0);
  const std::uint64_t first = penalties.first_row();
  const std::span<const std::uint8_t> constant = problem.constant_mask();
  for (std::size_t k = 0; k < model.topologies.size(); ++k) {
    const BlockKind kind = problem.kind(model.topologies[k]);
    if (!is_constraint(kind)) continue;
    const ir::Batch& batch = *model.model.terms[k].batch;
    const std::size_t outputs = constraint_outputs(model, k);
    for (std::size_t i = 0; i < batch.size(); ++i) {
      bool is_fixed = !constant.empty();
      for (std::uint32_t c = 0; is_fixed && c < batch.parameter_columns(); ++c)
        is_fixed = constant[batch.index(i, c)] != 0;
      for (std::size_t output = 0; output < outputs; ++output) {
        const std::size_t row = batch.residual_row(i) - first + output;
        equality[row] = kind == BlockKind::equality;
        fixed[row] = is_fixed;
      }
    }
  }
}

namespace {

/// ‖J_i‖² of one row in the free unknowns and their units, and Σ |J_ik x_k|, of whose size its
/// value rounds.
struct RowSize {
  double squared = 0, moved = 0;
};

RowSize size_of_row(const ir::Batch& batch, std::size_t instance, std::span<const double> row,
                    std::span<const double> x, std::span<const double> units,
                    std::span<const std::uint8_t> constant) {
  RowSize out;
  for (std::uint32_t s = 0; s < row.size(); ++s) {
    const std::uint32_t scalar = batch.index(instance, s);
    out.moved += std::abs(row[s] * x[scalar]);
    if (constant.empty() || constant[scalar] == 0)
      out.squared += std::pow(row[s] / units[scalar], 2);
  }
  return out;
}

}  // namespace

bool ConstrainedRun::measure_rows() {
  const std::span<const double> x = inner.point();
  const double unit = rounding_unit(options.precision);
  std::vector<double> of_gradient(x.size());
  const std::vector<double> before = scale;
  const std::vector<std::uint8_t>& constant = model.model.constant;
  for_each_constraint_row(*this, [&](const ConstraintRow& one) {
    const std::size_t row = one.row;
    const RowSize size =
        size_of_row(one.batch, one.instance, one.derivatives, x, units.first(), constant);
    if (std::isfinite(size.squared)) norms_[row] = std::max(norms_[row], std::sqrt(size.squared));
    if (std::isfinite(size.moved)) rounding[row] = unit * size.moved;
    if (norms_[row] > 0) scale[row] = 1 / norms_[row];
    const double scaled = scale[row] * scale[row] * rounding[row];
    for (std::uint32_t s = 0; s < one.derivatives.size(); ++s) {
      const std::uint32_t scalar = one.batch.index(one.instance, s);
      if (!constant.empty() && constant[scalar] != 0) continue;
      of_gradient[scalar] += scaled * std::abs(one.derivatives[s]) / units.now()[scalar];
    }
  });
  gradient_rounding = largest(of_gradient);
  if (scale == before) return false;
  penalties.set_scales(scale);
  return true;
}

/// In small units a violation of constraint_tolerance may be far from the constraint: so far that
/// the residuals change by much on the way.
double ConstrainedRun::tolerance(std::size_t row) const {
  const double cost = std::max(std::abs(objective), std::abs(first_objective));
  const double far = kFarthest * std::sqrt(cost) / units.largest();
  const bool has_far = norms_[row] > 0 && std::isnormal(far);
  const double most = has_far ? std::min(1.0, far / scale[row]) : 1;
  return std::max(options.constraint_tolerance * most, kRoundingUnits * rounding[row]);
}

double ConstrainedRun::least_tolerance() const {
  double least = std::numeric_limits<double>::infinity();
  for (std::size_t row = 0; row < rows(); ++row)
    least = std::min(least, scale[row] * tolerance(row));
  return least;
}

double ConstrainedRun::scaled_square(std::span<const double> of_rows) const {
  double squared = 0;
  for (std::size_t row = 0; row < rows(); ++row) squared += std::pow(scale[row] * of_rows[row], 2);
  return squared;
}

double ConstrainedRun::scaled_violation() const { return std::sqrt(scaled_square(violation)); }

double ConstrainedRun::largest_penalty() const {
  return gradient_rounding > 0 ? gradients.bound(kPenaltyRounding) / gradient_rounding
                               : std::numeric_limits<double>::infinity();
}

double ConstrainedRun::cost() {
  double out = 0;
  runtime::evaluate(inner.engine(runtime::Pass::cost), {.cost = &out});
  return out;
}

std::vector<double> ConstrainedRun::gradient() {
  std::vector<double> out(model.model.scalars);
  runtime::evaluate(inner.engine(runtime::Pass::gradient), {.gradient = out});
  return out;
}

std::vector<double> ConstrainedRun::objective_gradient() {
  std::vector<double> out(model.model.scalars);
  penalties.set_weight(0);
  runtime::Engine& engine = inner.engine(runtime::Pass::cost_gradient);
  runtime::evaluate(engine, {.cost = &objective, .gradient = out});
  return out;
}

/// Σ w d ∇c over all rows, of what is free, in its units; the weights w differ so that opposite
/// rows remain.
std::vector<double> ConstrainedRun::across_constraints() {
  constexpr double kGoldenRatio = 0.6180339887498949;
  std::vector<double> out(model.model.scalars);
  for_each_constraint_row(*this, [&](const ConstraintRow& one) {
    const double turns = kGoldenRatio * static_cast<double>(one.row);
    const double weight = 0.5 + turns - std::floor(turns);
    for (std::uint32_t s = 0; s < one.derivatives.size(); ++s)
      out[one.batch.index(one.instance, s)] += weight * scale[one.row] * one.derivatives[s];
  });
  const std::vector<std::uint8_t>& constant = model.model.constant;
  for (std::size_t k = 0; k < constant.size(); ++k)
    if (constant[k] != 0) out[k] = 0;
  for (std::size_t k = 0; k < out.size(); ++k) out[k] /= units.now()[k];
  return out;
}

void ConstrainedRun::measure_curvature(std::span<const double> gradient, double farthest) {
  penalties.set_weight(0);
  std::vector<double> along = across_constraints();
  std::vector<double> product(along.size());
  const double squared = dot(along, along);
  if (!(squared > 0)) return;
  for (std::size_t k = 0; k < along.size(); ++k) along[k] /= units.now()[k];
  double found = 0;
  if (problem.energy_count() == 0) {
    inner.engine(runtime::Pass::jtjp).jtjp(along, product);
    found = dot(along, product) / squared;
  } else {
    // Curvatures of both signs may cancel, and none may be there.
    const bool curves = !problem.has_manifolds() && problem.host_blocks().empty();
    if (curves) runtime::second_derivatives(inner.engine(runtime::Pass::hvp)).hvp(along, product);
    for (std::size_t k = 0; k < product.size(); ++k) product[k] /= units.now()[k];
    const std::vector<double> steep = in_units({gradient.begin(), gradient.end()});
    const double curved = std::sqrt(dot(product, product) / squared);
    const double violated = scaled_violation();
    const double distance = violated > 0 || curved > 0 ? violated : farthest;
    const double slope = distance > 0 ? std::sqrt(dot(steep, steep)) / distance : 0;
    found = kOfEnergies * std::max(curved, slope);
  }
  if (std::isfinite(found)) curvature = found;
}

double ConstrainedRun::projected_max(std::vector<double> gradient) const {
  return largest(in_units(std::move(gradient)));
}

std::vector<double> ConstrainedRun::in_units(std::vector<double> gradient) const {
  hold_at_bounds(model.model, inner.point(), gradient);
  std::vector<double> out = by_coordinate(gradient);
  const std::vector<double> unit = space.by_coordinate(units.now());
  for (std::size_t k = 0; k < out.size(); ++k) out[k] /= unit[k];
  return out;
}

std::vector<double> ConstrainedRun::by_coordinate(std::span<const double> gradient) const {
  std::vector<double> basis, out(space.size(), std::numeric_limits<double>::infinity());
  if (space.basis(inner.point(), basis)) space.project(basis, gradient, out);
  return out;
}

void ConstrainedRun::measure_stationarity(const std::vector<double>& gradient) {
  std::vector<double> held = gradient;
  hold_at_bounds(model.model, inner.point(), held);
  kkt.stationarity = largest(by_coordinate(held));
  stationarity = projected_max(gradient);
}

std::vector<double> ConstrainedRun::free_in_units(std::span<const double> gradient) const {
  std::vector<double> out(gradient.begin(), gradient.end());
  for (std::size_t k = 0; k < out.size(); ++k) {
    const bool is_free = model.model.constant.empty() || model.model.constant[k] == 0;
    out[k] = is_free ? out[k] / units.now()[k] : 0;
  }
  return out;
}

void ConstrainedRun::measure_units(std::span<const double> gradient) {
  const double cost = std::max(std::abs(objective), std::abs(first_objective));
  units.measure(inner.engine(runtime::Pass::jacobian), gradient, cost);
  if (units.missing()) fill_units();
}

/// Units of unknowns that the objective does not depend on follow from those of others in the rows
/// that read both.
///
/// Cost: a pass over the constraints' Jacobian.
void ConstrainedRun::fill_units() {
  std::vector<UnknownUnits::Entry> entries;
  for_each_constraint_row(*this, [&](const ConstraintRow& one) {
    for (std::uint32_t s = 0; s < one.derivatives.size(); ++s)
      entries.push_back({one.row, one.batch.index(one.instance, s), one.derivatives[s]});
  });
  units.fill(rows(), entries);
}

void ConstrainedRun::start(std::span<const double> gradient, std::vector<double> penalised) {
  const std::span<const double> x = inner.point();
  first_objective = objective;
  for (std::size_t k = 0; k < penalised.size(); ++k) penalised[k] -= gradient[k];
  first_distance = largest_distance();
  const double steepest = largest(free_in_units(gradient));
  gradients.start(steepest);
  const std::vector<double> c =
      constraint_values(model, inner.engine(runtime::Pass::cost), penalties.first_row(), x);
  double farthest = 0;
  for (std::size_t row = 0; row < rows(); ++row)
    farthest = std::max(farthest, scale[row] * std::abs(c[row]));
  first_promise_ = farthest * steepest;
  const double distance = scaled_violation();
  if (distance > 0) violation_slope = projected_max(penalised) / distance;
  measure_curvature(gradient, farthest);
}

void ConstrainedRun::measure(std::span<const double> gradient) {
  summary.final_cost = objective;
  measure_units(gradient);
  gradients.measure(largest(free_in_units(gradient)));
}

bool ConstrainedRun::refuse_fixed() {
  std::size_t worst = fixed.size();
  for (std::size_t row = 0; row < fixed.size(); ++row) {
    if (!fixed[row] || !(violation[row] > tolerance(row))) continue;
    if (worst == fixed.size() || violation[row] > violation[worst]) worst = row;
  }
  if (worst == fixed.size()) return false;
  summary.constrained.infeasible = name_of(worst);
  finish(Termination::INFEASIBLE, name_of(worst) +
                                      " reads only fixed unknowns and is violated by " +
                                      short_text(violation[worst]));
  kkt.feasibility = violation[worst];
  summary.final_cost = objective;
  return true;
}

double ConstrainedRun::cost_unit() const {
  const double largest = std::max(std::abs(objective), std::abs(first_objective));
  return largest > 0 ? std::min(largest, 1.0) : first_promise_ > 0 ? first_promise_ : 1.0;
}

double ConstrainedRun::complementarity_bound() const {
  return 10 * options.kkt_tolerance *
         std::max(cost_unit(), kShareOfObjective * std::abs(objective));
}

bool ConstrainedRun::stopped() const {
  const bool by_user = summary.termination == Termination::USER_SUCCESS ||
                       summary.termination == Termination::USER_FAILURE;
  return by_user ||
         (!summary.iterations.empty() &&
          summary.iterations.back().cumulative_time_in_seconds >= options.time_limit_seconds);
}

bool ConstrainedRun::nearly_feasible() const {
  return largest_distance() <=
         std::sqrt(options.constraint_tolerance) * std::clamp(first_distance, 1e-4, 1.0);
}

void ConstrainedRun::keep_if_met() {
  for (std::size_t row = 0; row < rows(); ++row)
    if (!(violation[row] <= std::min(options.constraint_tolerance, tolerance(row)))) return;
  met_.assign(inner.point().begin(), inner.point().end());
}

double ConstrainedRun::largest_distance() const {
  double most = 0;
  for (std::size_t row = 0; row < rows(); ++row) most = std::max(most, scale[row] * violation[row]);
  return most;
}

bool ConstrainedRun::violation_is_least(double weight, double inequalities,
                                        std::span<const double> shifts) {
  penalties.set_weights(weight, inequalities);
  penalties.set_shifts(shifts);
  std::vector<double> with = gradient();
  penalties.set_weight(0);
  const std::vector<double> alone = gradient();
  for (std::size_t k = 0; k < with.size(); ++k) with[k] -= alone[k];
  return projected_max(with) <=
         kStationary * weight * weight * std::max(violation_slope, 1e-8) * scaled_violation();
}

bool ConstrainedRun::violation_falls_beside() {
  constexpr std::size_t kMostUnknowns = 64;
  constexpr int kLargestPower = 40, kPowers = 4;
  constexpr double kLess = 0.95;  // minimisations end beside the least violation, too
  if (inner.point().size() > kMostUnknowns || problem.has_manifolds()) return false;
  std::vector<double> x(inner.point().begin(), inner.point().end());
  const auto violated_at = [&](std::span<const double> at) {
    std::vector<double> c =
        constraint_values(model, inner.engine(runtime::Pass::cost), penalties.first_row(), at);
    for (std::size_t row = 0; row < rows(); ++row) c[row] = violation_by(row, c[row]);
    return scaled_square(c);
  };
  const double least = kLess * violated_at(x);
  for (std::size_t k = 0; k < x.size(); ++k) {
    if (!model.model.constant.empty() && model.model.constant[k] != 0) continue;
    const double here = x[k], size = here != 0 ? here : 1;
    for (int power = -kLargestPower; power <= kLargestPower; power += kPowers)
      for (const double sign : {1.0, -1.0}) {
        x[k] = here + sign * std::ldexp(size, power);
        const bool within = model.model.lower.empty() ||
                            (x[k] >= model.model.lower[k] && x[k] <= model.model.upper[k]);
        if (within && violated_at(x) < least) return true;
      }
    x[k] = here;
  }
  return false;
}

bool ConstrainedRun::ended(const std::function<bool()>& converged,
                           const std::function<bool()>& infeasible) {
  if (stopped()) return true;
  if (converged()) {
    finish_converged();
  } else if (infeasible()) {
    finish_infeasible();
  } else if (summary.constrained.outer_iterations >= options.max_outer_iterations) {
    finish_unconverged();
  } else {
    return false;
  }
  return true;
}

void ConstrainedRun::finish(Termination termination, std::string message) {
  summary.termination = termination;
  summary.message = std::move(message);
}

void ConstrainedRun::finish_converged() {
  finish(Termination::CONVERGENCE, "constraints and multipliers meet the tolerances: violation " +
                                       short_text(kkt.feasibility) +
                                       ", gradient of the Lagrangian " +
                                       short_text(kkt.stationarity));
}

void ConstrainedRun::finish_infeasible() {
  const std::size_t worst = worst_row();
  const std::string least =
      short_text(violation[worst]) + " where the violation of all constraints is least";
  if (!met_.empty()) {
    finish(Termination::NO_CONVERGENCE, name_of(worst) + " is violated by " + least +
                                            ", although an earlier point met all of them: start "
                                            "there, with a larger initial_penalty");
    return;
  }
  summary.constrained.infeasible = name_of(worst);
  finish(Termination::INFEASIBLE, name_of(worst) + " cannot be met: it is violated by " + least);
}

void ConstrainedRun::finish_unconverged() {
  finish(Termination::NO_CONVERGENCE, "maximum number of outer iterations reached: " +
                                          std::to_string(options.max_outer_iterations) +
                                          "; violation " + short_text(kkt.feasibility) +
                                          ", gradient of the Lagrangian " +
                                          short_text(kkt.stationarity));
}

std::string ConstrainedRun::name_of(std::size_t row) const {
  return constraint_name(problem, model, penalties.first_row() + row);
}

std::size_t ConstrainedRun::worst_row() const {
  return static_cast<std::size_t>(std::ranges::max_element(violation) - violation.begin());
}

void ConstrainedRun::report() {
  ConstrainedSummary& out = summary.constrained;
  summary.initial_cost = first_objective;
  out.kkt = kkt;
  summary.optimality = stationarity / gradients.bound(1);
  out.multipliers = multipliers;
  double most = 0;  // of the multipliers of rows times d
  for (std::size_t row = 0; row < rows(); ++row)
    most = std::max(most, std::abs(multipliers[row]) / scale[row]);
  for (std::size_t row = 0; row < rows(); ++row)
    if (std::abs(multipliers[row]) <= kNoMultiplier * most * scale[row]) out.multipliers[row] = 0;
  std::vector<double> tolerances(rows());
  for (std::size_t row = 0; row < rows(); ++row) tolerances[row] = tolerance(row);
  out.constraints = summarise({.problem = problem,
                               .model = model,
                               .engine = inner.engine(runtime::Pass::cost),
                               .point = inner.point(),
                               .first_row = penalties.first_row(),
                               .fixed = fixed,
                               .outside = outside,
                               .multipliers = out.multipliers,
                               .violation = violation,
                               .tolerance = tolerances,
                               .infeasible = summary.termination == Termination::INFEASIBLE});
}

}  // namespace topograd
