// The outer loop of nonlinear least squares.
#include "levenberg_marquardt.hpp"

#include "../../ir/error.hpp"
#include "../model/decreasing_loss.hpp"
#include "../model/nonfinite.hpp"
#include "../step_control/convergence.hpp"
#include "../step_control/line_search.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <utility>

namespace topograd {
namespace {

using runtime::StepReport;

// Damping at the level of rounding: a Gauss–Newton step that a singular block cannot break.
double undamped_lambda(Precision precision) { return precision == Precision::f32 ? 1e-7 : 1e-15; }

double least_normal(Precision precision) {
  return precision == Precision::f32 ? double{std::numeric_limits<float>::min()}
                                     : std::numeric_limits<double>::min();
}

// Bounds of one cut of a step, and their number.
constexpr double kLeastCut = 0.1, kLargestCut = 0.5;
constexpr int kMostCuts = 12;

// Growth of the radius where damping hides what is left to gain.
constexpr double kWidening = 100;

constexpr const char* kOutOfRange =
    "squares of residuals or derivatives underflow or overflow: scale the residuals or the "
    "unknowns";

// Share of the decrease before from which on steps are slow.
constexpr double kSlow = 0.5;

/// Penalties of inequalities bend where one becomes active.
bool has_bends(const ProblemModel& model) {
  return model.constraints == ConstraintTerms::penalties &&
         std::ranges::any_of(model.topologies, [&](std::size_t topology) {
           return model.problem->kind(topology) == BlockKind::inequality;
         });
}

bool finite(const runtime::PointReport& point) {
  return std::isfinite(point.cost) && std::isfinite(point.gradient_max_norm);
}

}  // namespace

Minimizer::Minimizer(const SolverOptions& options, const ProblemModel& model, Summary& summary,
                     Checkpoints* checkpoints)
    : options_(options),
      model_(model),
      summary_(summary),
      checkpoints_(checkpoints),
      control_(options, summary),
      inspector_(options, model, summary),
      region_(options.initial_trust_region_radius, options.max_trust_region_radius,
              options.method == Method::dogleg),
      forcing_(ForcingSequence::constant, options.linear_tolerance),
      gain_(options.max_consecutive_nonmonotonic_steps),
      hidden_(options),
      bends_(has_bends(model)),
      undamped_(options.method == Method::gauss_newton) {}

void Minimizer::run(Engines& engines, StepSolver& solver) {
  const ForcingSequence asked = options_.forcing_sequence;
  forcing_ = Forcing(asked == ForcingSequence::automatic ? solver.forcing() : asked,
                     options_.linear_tolerance);
  start(engines, solver);
  check_bounds();
  save(engines.here(), solver);
  while (!control_.finished()) {
    step(engines, solver);
    check_bounds();
    save(engines.here(), solver);
  }
  // If no step was tried from the last point, its loss has not been checked.
  if (first_trial_.open && (summary_.termination == Termination::CONVERGENCE ||
                            summary_.termination == Termination::NO_CONVERGENCE))
    refuse_decreasing_loss(engines.here());
  return_to_best(engines.here());
  if (!first_nonfinite_.empty())
    summary_.message += "; at " + std::to_string(summary_.num_nonfinite_steps) +
                        " trial points the cost was not finite, at the first of them " +
                        first_nonfinite_;
}

void Minimizer::start(Engines& engines, StepSolver& solver) {
  inspector_.check_point(engines.here(), "at the start");
  const bool resumes = checkpoints_ != nullptr && checkpoints_->restores();
  started_ = started_ || resumes;
  if (resumes) {
    control_.resume(checkpoints_->restore(
        [&](ir::StateRecord& record) { transfer(record, engines.here(), solver); }));
  }
  linearize(engines, solver);
  if (resumes && control_.finished()) return;
  if (!resumes) prepare_steps(engines.here());
  if (!finite(point_)) {
    throw Error(ErrorCode::NonFinite, "solve: " + describe_nonfinite(engines.here(), model_));
  }
  check_range(engines.here());
  if (resumes) return;
  summary_.final_cost = point_.cost;
  if (started_) return;  // a second engine takes over
  started_ = true;
  set_region();
  gain_.start(point_.cost);
  if (!summary_.iterations.empty()) return;  // another minimisation went before
  summary_.initial_cost = point_.cost;
  record({.cost = point_.cost});
}

void Minimizer::transfer(ir::StateRecord& record, runtime::Engine& engine, StepSolver& solver) {
  region_.transfer(record);
  forcing_.transfer(record);
  gain_.transfer(record);
  record.list("best point", best_);
  if (!best_.empty() && best_.size() != model_.model.scalars)
    record.refuse("best point", "has another length");
  record.text("first nonfinite trial", first_nonfinite_);
  record.value("undamped", undamped_);
  record.value("first trial", first_trial_.open);
  record.value("expected decrease", first_trial_.expected);
  record.value("nothing to gain", first_trial_.nothing_to_gain);
  record.value("refused radius", refused_radius_);
  record.in_range("invalid steps in a row", invalid_in_a_row_, 0, 1 << 30);
  record.value("last change of the cost", last_change_);
  runtime::damped_steps(engine).transfer(record);
  solver.transfer(record);
}

void Minimizer::save(runtime::Engine& engine, StepSolver& solver) {
  if (checkpoints_ == nullptr) return;
  checkpoints_->look(
      control_.finished(), [&](ir::StateRecord& record) { transfer(record, engine, solver); },
      [&](std::span<double> x) { engine.point(x); });
}

void Minimizer::linearize(Engines& engines, StepSolver& solver) {
  const double begin = control_.elapsed();
  runtime::Engine& engine = engines.for_steps(solver.needs());
  point_ = runtime::damped_steps(engine).linearize();
  const double evaluated = control_.elapsed();
  summary_.times.evaluation_seconds += evaluated - begin;
  here_.reset();
  if (finite(point_)) here_.emplace(solver, engine, point_);
  summary_.optimality = optimality(point_, started_ ? summary_.initial_cost : point_.cost);
  summary_.times.linear_solver_seconds += control_.elapsed() - evaluated;
}

void Minimizer::prepare_steps(runtime::Engine& engine) {
  const double begin = control_.elapsed();
  forcing_.moved(point_.gradient_norm);
  inspector_.cross_check(engine);
  summary_.times.linear_solver_seconds += control_.elapsed() - begin;
  first_trial_.open = true;
}

void Minimizer::set_region() {
  const bool dogleg = options_.method == Method::dogleg;
  const double unit = dogleg && options_.scale_free ? residual_norm(point_.cost) : 1;
  if (!(unit > 0)) return;  // nothing to do
  region_ = TrustRegion(options_.initial_trust_region_radius * unit,
                        options_.max_trust_region_radius * unit, dogleg);
}

std::optional<runtime::StepRule> Minimizer::rule() const {
  if (hidden_.last() || options_.use_nonmonotonic_steps || inspector_.looks_at_trials() || bends_)
    return std::nullopt;
  return runtime::StepRule{.min_gain = options_.min_relative_decrease,
                           .rescales = options_.rescale_steps && here_->can_rescale(),
                           .least_gain = least_gain()};
}

runtime::StepRequest Minimizer::request() const {
  return {.lambda = undamped_ ? undamped_lambda(options_.precision) : 1 / region_.radius(),
          .min_diagonal = options_.min_lm_diagonal,
          .max_diagonal = options_.max_lm_diagonal,
          .jacobi_scaling = options_.jacobi_scaling,
          .scale_free = options_.scale_free,
          // Penalties grow valleys, in which more damping creeps.
          .keeps_damping = options_.scale_free && options_.jacobi_scaling &&
                           model_.constraints != ConstraintTerms::penalties,
          .energy_norm = options_.scale_free && !forcing_.is_loose(),
          .linear_tolerance = forcing_.tolerance(),
          .max_linear_iterations = options_.max_linear_iterations,
          .eta = options_.eta,
          .rule = rule()};
}

void Minimizer::step(Engines& engines, StepSolver& solver) {
  runtime::Engine& engine = engines.here();
  const double begin = control_.elapsed();
  Trial trial = here_->try_step(request());
  const double share = damped_share(trial.report);
  if (!trial.report.accepted && !hidden_.last()) rescale(trial);
  const bool shortened = shorten(trial);
  const StepReport& report = trial.report;
  if (std::isfinite(report.model_decrease)) inspector_.check_trial(engine);
  summary_.times.linear_solver_seconds += report.linear_seconds;
  summary_.times.evaluation_seconds +=
      std::max(0.0, control_.elapsed() - begin - report.linear_seconds);
  summary_.num_linear_iterations += report.linear_iterations;

  IterationSummary iteration{
      .iteration = summary_.num_iterations() + 1,
      .step_is_valid = std::isfinite(report.model_decrease) && report.model_decrease > 0,
      .step_is_successful = false,
      .cost_change = point_.cost - report.trial_cost,
      .step_norm = report.step_norm,
      .linear_iterations = report.linear_iterations};
  if (!std::isfinite(report.model_decrease)) iteration.cost_change = 0;  // there was no trial
  if (iteration.step_is_valid) {
    iteration.step_is_nonfinite = !std::isfinite(report.trial_cost);
    if (iteration.step_is_nonfinite && summary_.num_nonfinite_steps == 0)
      first_nonfinite_ = describe_nonfinite_trial(engine, model_);
    iteration.relative_decrease = iteration.step_is_nonfinite ? 0
                                  : options_.use_nonmonotonic_steps
                                      ? gain_.ratio(report.trial_cost, report.model_decrease)
                                      : iteration.cost_change / report.model_decrease;
  }
  if (!iteration.step_is_valid && invalid_in_a_row_ == 0 && refuse_decreasing_loss(engine)) return;
  const bool hidden = iteration.step_is_valid &&
                      hidden_.hides(point_.cost, iteration.cost_change, report.model_decrease);
  // An engine's verdict stands: it rounds in its own way.
  const bool accepted =
      (hidden_.last() && hidden) ||
      report.accepted.value_or(iteration.relative_decrease > options_.min_relative_decrease);
  hidden_.set_last(hidden);
  if (accepted) {
    // NOLINTNEXTLINE(performance-move-const-arg): taking ends it
    take(engines, solver, std::move(trial), iteration, {shortened, share});
  } else {
    refuse(report, iteration, share);
  }
  iteration.cost = point_.cost;
  record(iteration);
}

/// Gains above which another length is tried. Steps of loosely solved systems are shortened, too,
/// as inexact Newton methods do. Longer exact steps of poor gain would zigzag along a valley
/// into which more damping turns them: springs that fold, and the sets of NIST, then take half as
/// many steps again and more.
double Minimizer::least_gain() const {
  return forcing_.is_loose() ? runtime::StepRule{}.least_gain : 1.0;
}

/// Replaces a step by a better one of another length. With g·δ ≈ −2 × the model's decrease, as
/// where the damping is small, the parabola's minimum lies at 1 / (2 − gain).
void Minimizer::rescale(Trial& trial) {
  if (!options_.rescale_steps || options_.use_nonmonotonic_steps || !here_->can_rescale()) return;
  StepReport& report = trial.report;
  const runtime::StepRule rule{.least_gain = least_gain()};
  const double gain = (point_.cost - report.trial_cost) / report.model_decrease;
  if (!(report.model_decrease > 0) || !(gain > rule.least_gain)) return;
  const double lowest =
      parabola_minimiser(-2 * report.model_decrease, 1, report.trial_cost - point_.cost);
  const double length = std::isnan(lowest) ? rule.longest : std::min(lowest, rule.longest);
  if (std::abs(length - 1) < rule.least_change) return;
  const StepReport other = trial.rescale(length);
  if (other.trial_cost < report.trial_cost) {
    if (length < 1) report.model_decrease *= length * (2 - length);
    report.step_norm = other.step_norm;
    report.trial_cost = other.trial_cost;
  } else {
    trial.rescale(1);
  }
}

/// Cuts a step back that would be refused; true if it then gains enough.
bool Minimizer::shorten(Trial& trial) {
  StepReport& report = trial.report;
  const double whole = report.model_decrease;
  const bool may = bends_ && !undamped_ && !hidden_.last() && here_->can_rescale();
  if (!may || !(whole > 0)) return false;
  const StepReport full = report;
  double length = 1;
  for (int cuts = 0;; ++cuts) {
    report.model_decrease = whole * length * (2 - length);
    const double change = report.trial_cost - point_.cost;
    if (-change > options_.min_relative_decrease * report.model_decrease) return cuts > 0;
    if (cuts == kMostCuts) break;
    const double lowest = parabola_minimiser(-2 * whole, length, change) / length;
    length *= std::clamp(std::isfinite(lowest) ? lowest : kLargestCut, kLeastCut, kLargestCut);
    const StepReport other = trial.rescale(length);
    report.step_norm = other.step_norm;
    report.trial_cost = other.trial_cost;
  }
  trial.rescale(1);
  report = full;
  return false;
}

void Minimizer::take(Engines& engines, StepSolver& solver, Trial trial, IterationSummary& iteration,
                     const Taken& taken) {
  const StepReport report = trial.report;
  const runtime::PointReport before = point_;
  keep_best(engines.here(), report.trial_cost);
  std::move(*here_).accept(std::move(trial));  // NOLINT(performance-move-const-arg): both end
  iteration.step_is_successful = true;
  ++summary_.num_successful_steps;
  gain_.accepted(report.trial_cost, report.model_decrease);
  summary_.final_cost = options_.use_nonmonotonic_steps ? gain_.minimum() : report.trial_cost;
  invalid_in_a_row_ = 0;
  if (taken.shortened) {
    region_.rejected();
  } else if (!undamped_ && !hidden_.last()) {
    size_region(iteration, report);
  }
  last_change_ = iteration.cost_change;
  undamped_ = options_.method == Method::gauss_newton;
  linearize(engines, solver);
  if (hidden_.last() && hidden_.follow(before.gradient_max_norm, point_.gradient_max_norm, region_))
    finish(Termination::CONVERGENCE, "neither the cost nor the gradient falls any more: rounding");
  check_accepted(iteration, before,
                 {.decrease = report.model_decrease,
                  .change = iteration.cost_change,
                  .damped_share = taken.damped_share,
                  .noise = cost_noise(point_, options_.precision)});
  prepare_steps(engines.here());
  if (!finite(point_)) {
    point_.cost = report.trial_cost;
    refuse_derivatives(describe_nonfinite(engines.here(), model_));
  }
  if (out_of_range(point_)) finish(Termination::FAILURE, kOutOfRange);
}

/// Changes of the cost that say nothing about a step. A tolerance below the rounding of f64 asks
/// for all that steps can reach: then the least radius ends the solve.
double Minimizer::hiding_noise() const {
  const bool looks = options_.scale_free && !ends_by_gradient(options_) &&
                     options_.function_tolerance > std::numeric_limits<double>::epsilon();
  return looks ? cost_noise(point_, options_.precision) : 0;
}

/// Goes on with less damping where that may gain more than the last steps have; false where it may
/// not, or was tried.
bool Minimizer::widen(const LastStep& step) {
  if (!options_.scale_free || ends_by_gradient(options_) || !damping_hides_more(step)) return false;
  const bool dogleg = options_.method == Method::dogleg;
  const double most = dogleg ? refused_radius_ : 1 / undamped_lambda(options_.precision);
  return region_.widen(kWidening, std::min(refused_radius_, most));
}

/// Residuals whose squares underflow have no cost and no gradient.
void Minimizer::check_range(runtime::Engine& engine) {
  bool out = out_of_range(point_);
  if (point_.cost == 0 && point_.gradient_max_norm == 0 && model_.model.rows > 0) {
    std::vector<double> residuals(model_.model.rows);
    engine.residuals(residuals);
    double largest = 0;
    for (const double r : residuals) largest = std::max(largest, std::abs(r));
    out = largest > 0 && largest * largest < least_normal(options_.precision);
  }
  if (out) throw Error(ErrorCode::NonFinite, std::string("solve: ") + kOutOfRange);
}

void Minimizer::size_region(const IterationSummary& iteration, const StepReport& report) {
  const bool slow = options_.scale_free && !bends_ && last_change_ > 0 &&
                    iteration.cost_change > kSlow * last_change_;
  region_.accepted(iteration.relative_decrease, report.scaled_step_norm, slow);
}

bool Minimizer::refuse_decreasing_loss(runtime::Engine& engine) {
  const std::optional<std::string> text = describe_decreasing_loss(engine, model_);
  if (text) refuse_derivatives(*text);
  return text.has_value();
}

void Minimizer::refuse_derivatives(const std::string& why) {
  if (summary_.num_successful_steps == 0) throw Error(ErrorCode::NonFinite, "solve: " + why);
  finish(Termination::FAILURE, "derivatives are not finite at an accepted point: " + why);
}

/// Remembers the current point if it is the best one and the next is not better.
void Minimizer::keep_best(runtime::Engine& engine, double trial_cost) {
  if (!options_.use_nonmonotonic_steps) return;
  if (trial_cost < gain_.minimum()) return best_.clear();
  if (!best_.empty()) return;
  best_.resize(model_.model.scalars);
  engine.point(best_);
}

void Minimizer::return_to_best(runtime::Engine& engine) {
  if (!best_.empty()) engine.set_point(best_);
}

void Minimizer::refuse(const StepReport& report, IterationSummary& iteration, double share) {
  ++summary_.num_unsuccessful_steps;
  summary_.num_nonfinite_steps += iteration.step_is_nonfinite ? 1 : 0;
  const double noise = hiding_noise();
  const double resolution = std::max(options_.function_tolerance * point_.cost, noise);
  const double step_bound =
      options_.parameter_tolerance * (point_.x_norm + options_.parameter_tolerance);
  if (first_trial_.open) {
    first_trial_.expected = std::abs(report.model_decrease);
    first_trial_.nothing_to_gain = first_trial_.expected <= resolution && forcing_.trusts_last();
  }
  const LastStep last{.decrease = report.model_decrease,
                      .change = iteration.cost_change,
                      .damped_share = share,
                      .noise = noise};
  const bool hidden = std::abs(last.change) <= noise && last.decrease <= noise;
  if (iteration.step_is_valid && !hidden)
    refused_radius_ = std::min(refused_radius_, region_.radius());
  const bool widens = first_trial_.nothing_to_gain && widen(last);
  // Tiny steps of a small region say nothing unless the first one promised nothing, either.
  const bool moves_nothing = first_trial_.open || options_.scale_free
                                 ? std::abs(iteration.cost_change) <= resolution
                                 : iteration.step_is_valid && iteration.step_norm <= step_bound;
  if (first_trial_.nothing_to_gain && moves_nothing && !widens &&
      may_claim(options_.function_tolerance)) {
    control_.converge("function tolerance reached: |predicted cost change|", first_trial_.expected,
                      resolution);
  }
  if (iteration.step_is_valid) {
    invalid_in_a_row_ = 0;
    if (!undamped_ && !widens) region_.rejected();
  } else {
    if (!undamped_) region_.invalid();
    if (++invalid_in_a_row_ > options_.max_consecutive_invalid_steps && !control_.finished()) {
      finish(Termination::FAILURE, "no usable step: the linear model expected no decrease " +
                                       std::to_string(invalid_in_a_row_) + " times in a row");
    }
  }
  forcing_.refused();
  undamped_ = false;
  first_trial_.open = false;
}

/// The claim that no step lowers the cost by more than this share, against the gradient.
bool Minimizer::may_claim(double share) const {
  if (!options_.scale_free || !(summary_.optimality > most_optimality(share))) return true;
  const double noise = cost_noise(point_, options_.precision);
  return point_.scaled_gradient_max * point_.scaled_gradient_max <= noise;
}

void Minimizer::check_accepted(const IterationSummary& iteration,
                               const runtime::PointReport& before, const LastStep& last) {
  if (ends_by_gradient(options_)) return;
  const double tolerance = options_.parameter_tolerance;
  const double cost_bound = options_.function_tolerance * before.cost;
  const double step = options_.scale_free ? point_.scaled_step_norm : iteration.step_norm;
  const double step_bound =
      tolerance * (options_.scale_free ? residual_norm(before.cost) : before.x_norm + tolerance);
  const bool costs_settle = std::fabs(iteration.cost_change) <= cost_bound;
  const bool promises =
      options_.scale_free && options_.function_tolerance > 0 && last.decrease > cost_bound;
  if (!costs_settle) refused_radius_ = std::numeric_limits<double>::infinity();
  if (!costs_settle && !(step <= step_bound && !promises)) return;
  if (!forcing_.trusts_last() || widen(last)) return;
  if (!may_claim(std::max(options_.function_tolerance, costs_settle ? 0 : tolerance))) return;
  if (costs_settle) {
    control_.converge("function tolerance reached: cost change", iteration.cost_change, cost_bound);
  } else {
    control_.converge("parameter tolerance reached: step norm", step, step_bound);
  }
}

void Minimizer::check_bounds() {
  if (options_.scale_free) {
    control_.check_limits("max |gradient| / (‖column‖ ‖residuals‖)", summary_.optimality, 1,
                          point_.gradient_max_norm);
  } else {
    control_.check_limits("max |gradient|", point_.gradient_max_norm, 1, point_.gradient_max_norm);
  }
  if (control_.finished() || !(region_.radius() <= options_.min_trust_region_radius)) return;
  const double noise = cost_noise(point_, options_.precision);
  // What ends a minimisation within augmented_lagrangian is judged there.
  if (!options_.scale_free || model_.constraints == ConstraintTerms::penalties) {
    control_.converge("minimum trust region radius reached: radius", region_.radius(),
                      options_.min_trust_region_radius);
  } else if (first_trial_.expected <= noise) {
    control_.converge("rounding of the cost reached: predicted cost change", first_trial_.expected,
                      noise);
  } else {
    finish(Termination::NO_CONVERGENCE,
           "minimum trust region radius reached: no step lowers the cost, but the gradient is not "
           "zero (a kink, or derivatives that do not match the residuals)");
  }
}

void Minimizer::finish(Termination termination, std::string message) {
  control_.finish(termination, std::move(message));
}

void Minimizer::record(IterationSummary iteration) {
  iteration.gradient_max_norm = point_.gradient_max_norm;
  iteration.gradient_norm = point_.gradient_norm;
  iteration.trust_region_radius = region_.radius();
  control_.record(iteration);
}

}  // namespace topograd
