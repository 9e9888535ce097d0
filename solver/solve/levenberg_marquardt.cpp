// The outer loop of nonlinear least squares, and the noise of rows in its cost.
#include "levenberg_marquardt.hpp"

#include "../../ir/error.hpp"
#include "../host/tangent_space.hpp"
#include "../model/nonfinite.hpp"
#include "../model/residual_rounding.hpp"
#include "../plan/decide.hpp"
#include "../step_control/convergence.hpp"
#include "../step_control/line_search.hpp"
#include "../step_control/newton_decrement.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace topograd {
namespace {

using runtime::StepReport;

double least_normal(Precision precision) {
  return precision == Precision::f32 ? double{std::numeric_limits<float>::min()}
                                     : std::numeric_limits<double>::min();
}

// Bounds of one cut of a step, and their number.
constexpr double kLeastCut = 0.1, kLargestCut = 0.5;
constexpr int kMostCuts = 12;

// A cost that is zero beside the one at the start, where steps still gain a part of what is left.
constexpr double kZero = 1e-20;

/// Second derivatives of penalties jump where an inequality becomes active.
bool has_curvature_jumps(const ProblemModel& model) {
  return model.constraints == ConstraintTerms::penalties &&
         std::ranges::any_of(model.topologies, [&](std::size_t topology) {
           return model.problem->kind(topology) == BlockKind::inequality;
         });
}

/// Instances whose indices are copied together.
constexpr std::size_t kTile = 256;

/// Sum over the rows of ε |r_k| a_k + ½ (ε a_k)² with a_k = √Σ_i (J_ki x_i)² at the engine's
/// point: what rounding of x may change in the squares. A row whose terms cancel, as that of a
/// point in the centre of a camera, counts by its own residual, not by those of all other rows.
///
///   unit  ε: the relative rounding unit
///
/// Infinite if there are residuals on the host, whose Jacobians the engine does not have.
///
/// Cost: one Jacobian, read on the host.
double row_noise(runtime::Engine& engine, const ProblemModel& model, double unit) {
  std::vector<double> x(model.model.scalars), residuals(model.model.rows), jacobian;
  engine.point(x);
  engine.residuals(residuals);
  std::vector<std::uint32_t> scalars;
  std::size_t row = 0;
  double sum = 0;
  for (std::size_t t = 0; t < model.model.terms.size(); ++t) {
    const runtime::Term& term = model.model.terms[t];
    if (term.energy) continue;
    const std::size_t slots = term.batch->parameter_columns(), instances = term.batch->size();
    const std::size_t outputs = term.topology->program.outputs.size();
    jacobian.resize(instances * outputs * slots);
    if (!jacobian.empty()) engine.jacobian(t, jacobian);
    const double* entry = jacobian.data();
    for (std::size_t first = 0; first < instances; first += kTile) {
      const std::size_t n = std::min(kTile, instances - first);
      scalars.resize(slots * n);
      for (std::size_t s = 0; s < slots; ++s)
        term.batch->copy_index_column(static_cast<std::uint32_t>(s), first,
                                      std::span(scalars).subspan(s * n, n));
      for (std::size_t k = 0; k < n * outputs; ++k, ++row) {
        double square = 0;
        for (std::size_t s = 0; s < slots; ++s, ++entry) {
          const double part = *entry * x[scalars[s * n + k / outputs]];
          square += part * part;
        }
        const double noise = unit * std::sqrt(square);
        sum += noise * (std::abs(residuals[row]) + noise / 2);
      }
    }
  }
  // Rows on the host have no Jacobian here.
  return row == model.model.rows ? sum : std::numeric_limits<double>::infinity();
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
      curvature_jumps_(has_curvature_jumps(model)),
      rules_(make_rules()),
      gain_(options.max_consecutive_nonmonotonic_steps) {}

StepRules Minimizer::make_rules() const {
  const bool penalties = model_.constraints == ConstraintTerms::penalties;
  return {options_,
          {.penalties = penalties,
           .curvature_jumps = curvature_jumps_,
           .few = model_.shares == nullptr && !penalties}};
}

void Minimizer::set_forcing(Engines& engines, StepSolver& solver) {
  const ForcingSequence asked = options_.forcing_sequence;
  rules_.forcing() = Forcing(asked == ForcingSequence::automatic ? solver.forcing() : asked,
                             options_.linear_tolerance);
  rules_.limit_few(summary_.unknowns <= solver.most_undamped(engines.here()));
}

void Minimizer::run(Engines& engines, StepSolver& solver) {
  set_forcing(engines, solver);
  start(engines, solver);
  look_back(engines, solver);
  while (!control_.finished()) {
    advance(engines, solver);
    look_back(engines, solver);
  }
  // If no step was tried from the last point, its loss has not been checked.
  if (rules_.no_step_refused() && (summary_.termination == Termination::CONVERGENCE ||
                                   summary_.termination == Termination::NO_CONVERGENCE))
    refuse_decreasing_loss(engines.here());
  return_to_best(engines, solver);
  if (!first_nonfinite_.empty())
    summary_.message += "; at " + std::to_string(summary_.num_nonfinite_steps) +
                        " trial points the cost was not finite, at the first of them " +
                        first_nonfinite_;
}

/// Ends the minimisation where a new point or a refused step says so, unless another point is found
/// from which it goes on.
void Minimizer::look_back(Engines& engines, StepSolver& solver) {
  check_bounds(engines, solver);
  while ((control_.finished() || rules_.is_stuck()) && reconsider(engines, solver))
    check_bounds(engines, solver);
  save(engines.here(), solver);
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
  if (!rules_.finite()) {
    throw Error(ErrorCode::NonFinite, "solve: " + describe_nonfinite(engines.here(), model_));
  }
  check_range(engines.here());
  if (resumes) return;
  summary_.final_cost = point().cost;
  if (started_) return;  // a second engine takes over
  started_ = true;
  runtime::Engine& engine = engines.here();
  // Several processes look together, or not at all. Their engines evaluate one value at a time.
  const bool alone = engine.abilities().several_values != nullptr;
  const bool looks_back =
      solver.knows_columns(engine) || (alone && engine.backend() == runtime::Backend::cpu);
  if (options_.scale_free && !options_.use_nonmonotonic_steps && model_.shares == nullptr &&
      model_.constraints != ConstraintTerms::penalties && looks_back) {
    first_.resize(model_.model.scalars);
    engine.point(first_);
  }
  rules_.start(point().cost);
  gain_.start(point().cost);
  if (!summary_.iterations.empty()) return;  // another minimisation went before
  summary_.initial_cost = point().cost;
  record({.cost = point().cost});
}

void Minimizer::transfer(ir::StateRecord& record, runtime::Engine& engine, StepSolver& solver) {
  rules_.transfer_sizes(record);
  gain_.transfer(record);
  record.list("best point", best_);
  if (!best_.empty() && best_.size() != model_.model.scalars)
    record.refuse("best point", "has another length");
  record.text("first nonfinite trial", first_nonfinite_);
  rules_.transfer(record);
  lost_columns_.transfer(record);
  record.in_range("accepted steps before it began", steps_before_, 0,
                  std::numeric_limits<int>::max());
  const auto point = [&](std::string_view name, std::vector<double>& x) {
    record.list(name, x);
    if (!x.empty() && x.size() != model_.model.scalars) record.refuse(name, "has another length");
  };
  point("first point", first_);
  point("point before the turn", left_);
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
  runtime::PointReport point = runtime::damped_steps(engine).linearize();
  const double judged = judged_gradient(engine, point);
  const double evaluated = control_.elapsed();
  summary_.times.evaluation_seconds += evaluated - begin;
  here_.reset();
  if (std::isfinite(point.cost) && std::isfinite(point.gradient_max_norm))
    here_.emplace(solver, engine, point);
  rules_.set_point(point, started_ ? summary_.initial_cost : point.cost, judged);
  summary_.optimality = rules_.optimality();
  summary_.times.linear_solver_seconds += control_.elapsed() - evaluated;
}

/// max |g_i| in the units of the model, which absolute_gradient_tolerance is compared with.
///
/// Engines report the part of a gradient that leads to a bound as Ceres does, by the distance from
/// it, which is small in the units of many problems. A solve does not end by that.
///
/// Cost: where the engine's number would end the solve, a gradient.
double Minimizer::judged_gradient(runtime::Engine& engine,
                                  const runtime::PointReport& point) const {
  const runtime::Model& model = model_.model;
  const std::span<const double> units = model_.gradient_units;
  const double unit = units.empty() ? 1 : *std::ranges::max_element(units);
  const double bound = options_.absolute_gradient_tolerance * unit;
  const bool would_end = bound > 0 && point.gradient_max_norm <= bound;
  const bool is_known = units.empty() && (model.lower.empty() || !options_.scale_free);
  if (is_known || !would_end) return point.gradient_max_norm;
  std::vector<double> x(model.scalars), gradient(model.scalars);
  engine.point(x);
  engine.gradient(gradient);
  hold_at_bounds(model, x, gradient);
  if (!units.empty()) return largest_in_units(x, gradient);
  double most = point.gradient_max_norm;
  for (std::size_t k = 0; k < x.size(); ++k) {
    const bool bounded = std::isfinite(model.lower[k]) || std::isfinite(model.upper[k]);
    const bool moves = model.constant.empty() || model.constant[k] == 0;
    if (bounded && moves) most = std::max(most, std::abs(gradient[k]));
  }
  return most;
}

/// max |g| / unit over the coordinates that are free.
double Minimizer::largest_in_units(std::span<const double> x,
                                   std::span<const double> gradient) const {
  const TangentSpace space(*model_.problem);
  std::vector<double> basis, coordinates(space.size());
  if (!space.basis(x, basis)) return std::numeric_limits<double>::infinity();
  space.project(basis, gradient, coordinates);
  const std::vector<double> units = space.by_coordinate(model_.gradient_units);
  double most = 0;
  for (std::size_t k = 0; k < units.size(); ++k)
    most = std::max(most, std::abs(coordinates[k]) / units[k]);
  return most;
}

void Minimizer::prepare_steps(runtime::Engine& engine) {
  const double begin = control_.elapsed();
  rules_.open_point();
  inspector_.cross_check(engine);
  summary_.times.linear_solver_seconds += control_.elapsed() - begin;
}

std::optional<runtime::StepRule> Minimizer::rule() const {
  if (rules_.last_was_hidden() || options_.use_nonmonotonic_steps || inspector_.looks_at_trials() ||
      curvature_jumps_)
    return std::nullopt;
  return runtime::StepRule{.min_gain = options_.min_relative_decrease,
                           .rescales = options_.rescale_steps && here_->can_rescale(),
                           .least_gain = rules_.least_gain()};
}

runtime::StepRequest Minimizer::request() const {
  runtime::StepRequest request = rules_.request();
  request.rule = rule();
  return request;
}

void Minimizer::step(Engines& engines, StepSolver& solver) {
  runtime::Engine& engine = engines.here();
  const double begin = control_.elapsed();
  runtime::StepRequest asked = request();
  // Conjugate gradients need some damping where columns are zero.
  if (asked.lambda == 0 && form_of(solver.kind()) == LinearForm::products)
    asked.lambda = 1 / options_.max_trust_region_radius;
  Trial trial = here_->try_step(asked);
  const double share = damped_share(trial.report);
  if (!trial.report.accepted && !rules_.last_was_hidden()) rescale(trial);
  const bool shortened = shorten(trial);
  const StepReport& report = trial.report;
  if (std::isfinite(report.model_decrease)) inspector_.check_trial(engine);
  summary_.times.linear_solver_seconds += report.linear_seconds;
  summary_.times.evaluation_seconds +=
      std::max(0.0, control_.elapsed() - begin - report.linear_seconds);
  summary_.num_linear_iterations += report.linear_iterations;

  StepFacts facts = rules_.judge(report);
  if (facts.nonfinite && summary_.num_nonfinite_steps == 0)
    first_nonfinite_ = describe_nonfinite_trial(engine, model_);
  if (options_.use_nonmonotonic_steps && facts.valid && !facts.nonfinite)
    facts.gain = gain_.ratio(report.trial_cost, report.model_decrease);
  IterationSummary iteration{.iteration = summary_.num_iterations() + 1,
                             .step_is_valid = facts.valid,
                             .step_is_successful = false,
                             .step_is_nonfinite = facts.nonfinite,
                             .cost_change = facts.change,
                             .step_norm = report.step_norm,
                             .relative_decrease = facts.gain,
                             .linear_iterations = report.linear_iterations};
  if (!facts.valid && rules_.no_invalid_step() && refuse_decreasing_loss(engine)) return;
  if (rules_.accepts(facts, report)) {
    iteration.step_is_successful = true;
    // NOLINTNEXTLINE(performance-move-const-arg): taking ends it
    take(engines, solver, std::move(trial), facts, {shortened, share});
  } else {
    ++summary_.num_unsuccessful_steps;
    summary_.num_nonfinite_steps += facts.nonfinite ? 1 : 0;
    if (facts.valid) find_exact_gain(engines, solver, facts.change);
    find_row_noise(engine);
    Verdict refused = rules_.refuse(facts, report, share);
    if (refused.end == End::no_usable_step) refused = measured(engines, refused);
    end(confirmed(engines, solver, refused));
  }
  iteration.cost = point().cost;
  record(iteration);
}

void Minimizer::advance(Engines& engines, StepSolver& solver) {
  if (rules_.wants_exact_step()) {
    if (curve(engines, solver)) return;
    if (const Verdict verdict = rules_.check_settled()) return end(verdict);
  }
  step(engines, solver);
}

bool Minimizer::curve(Engines& engines, StepSolver& solver) {
  const double before = point().cost;
  const std::optional<ExactStep> found =
      exact_step(engines.here(), model_, rounding_unit(options_.precision), before, column_facts(),
                 rules_.exact_tries());
  if (!rules_.accepts_exact(found ? before - found->cost : 0)) {
    linearize(engines, solver);
    return false;
  }
  move_to(engines, solver, found->x);
  prepare_steps(engines.here());
  ++summary_.num_successful_steps;
  record({.iteration = summary_.num_iterations() + 1,
          .cost = point().cost,
          .cost_change = before - point().cost,
          .step_norm = found->step_norm});
  if (!rules_.finite()) refuse_derivatives(describe_nonfinite(engines.here(), model_));
  return true;
}

/// Replaces a step by a better one of another length.
void Minimizer::rescale(Trial& trial) {
  if (!here_->can_rescale()) return;
  const std::optional<double> length = rules_.other_length(trial.report);
  if (!length) return;
  if (!StepRules::take_length(trial.report, *length, trial.rescale(*length))) trial.rescale(1);
}

/// Cuts a step back that would be refused; true if it then gains enough.
bool Minimizer::shorten(Trial& trial) {
  StepReport& report = trial.report;
  const double whole = report.model_decrease;
  const bool may =
      curvature_jumps_ && !rules_.undamped() && !rules_.last_was_hidden() && here_->can_rescale();
  if (!may || !(whole > 0)) return false;
  const StepReport full = report;
  double length = 1;
  for (int cuts = 0;; ++cuts) {
    report.model_decrease = whole * length * (2 - length);
    const double change = report.trial_cost - point().cost;
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

void Minimizer::take(Engines& engines, StepSolver& solver, Trial trial, const StepFacts& facts,
                     const Taken& taken) {
  const StepReport report = trial.report;
  const runtime::PointReport before = point();
  keep_best(engines.here(), report.trial_cost);
  std::move(*here_).accept(std::move(trial));  // NOLINT(performance-move-const-arg): both end
  ++summary_.num_successful_steps;
  gain_.accepted(report.trial_cost, report.model_decrease);
  summary_.final_cost = options_.use_nonmonotonic_steps ? gain_.minimum() : report.trial_cost;
  rules_.take(facts, report, taken.shortened);
  linearize(engines, solver);
  find_exact_gain(engines, solver, facts.change);
  if (std::abs(facts.change) <= options_.function_tolerance * before.cost)
    find_row_noise(engines.here());
  end(confirmed(engines, solver, rules_.after_take(facts, report, before, taken.damped_share)));
  prepare_steps(engines.here());
  if (!rules_.finite()) {
    rules_.set_cost(report.trial_cost);
    refuse_derivatives(describe_nonfinite(engines.here(), model_));
  }
  if (out_of_range(point())) end({End::out_of_range});
}

void Minimizer::find_row_noise(runtime::Engine& engine) {
  // A device would compile kernels of the Jacobian for it; a rank has its own rows alone.
  const bool known = engine.backend() == runtime::Backend::cpu && model_.shares == nullptr;
  if (known && rules_.needs_row_noise())
    rules_.set_row_noise(row_noise(engine, model_, rounding_unit(options_.precision)));
}

void Minimizer::find_exact_gain(Engines& engines, StepSolver& solver, double change) {
  if (rules_.needs_exact_gain(change)) ask_exact_model(engines, solver);
}

void Minimizer::ask_exact_model(Engines& engines, StepSolver& solver,
                                std::span<const LeastCurvature> asked) {
  const double gain =
      exact_gain(engines.here(), model_, rounding_unit(options_.precision), column_facts(), asked);
  linearize(engines, solver);
  rules_.set_exact_gain(gain);
}

ColumnFacts Minimizer::column_facts() const {
  ColumnFacts out;
  if (here_) out.squares = here_->column_squares();
  out.noise = gradient_noise(out.squares, point(), rounding_unit(options_.precision));
  return out;
}

/// Residuals whose squares underflow have no cost and no gradient.
void Minimizer::check_range(runtime::Engine& engine) {
  bool out = out_of_range(point());
  if (point().cost == 0 && point().gradient_max_norm == 0 && model_.model.rows > 0) {
    std::vector<double> residuals(model_.model.rows);
    engine.residuals(residuals);
    double largest = 0;
    for (const double r : residuals) largest = std::max(largest, std::abs(r));
    out = largest > 0 && largest * largest < least_normal(options_.precision);
  }
  if (out) throw Error(ErrorCode::NonFinite, std::string("solve: ") + kOutOfRange);
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

/// The verdict was that of the last point: it must hold at the best one, too.
void Minimizer::return_to_best(Engines& engines, StepSolver& solver) {
  if (best_.empty()) return;
  engines.here().set_point(best_);
  linearize(engines, solver);
  if (summary_.termination != Termination::CONVERGENCE || rules_.tolerances_hold()) return;
  summary_.termination = Termination::NO_CONVERGENCE;
  summary_.message += "; but the gradient promises more at the best point, which was not the last";
}

void Minimizer::check_bounds(Engines& engines, StepSolver& solver) {
  if (control_.finished()) return;
  end(confirmed(engines, solver,
                rules_.check_limits(control_.elapsed() - summary_.resumed_seconds,
                                    summary_.num_iterations())));
  if (control_.finished()) return;
  const Verdict radius = rules_.check_radius();
  end(radius.end == End::kink ? measured(engines, radius) : radius);
}

/// No step lowers the cost; where what they promise is the rounding of the residuals, that is why.
Verdict Minimizer::measured(Engines& engines, const Verdict& verdict) {
  if (model_.shares != nullptr) return verdict;
  std::vector<double> x(model_.model.scalars);
  engines.here().point(x);
  return rules_.check_promise(
      verdict, residual_rounding(model_, x, options_.precision, true)
                   .noise(static_cast<double>(model_.model.rows), options_.precision));
}

// A step of strong directions may be small while damping still shortens that of weak ones. For a
// few unknowns, which are solved for directly, a step without damping costs next to nothing.
Verdict Minimizer::confirmed(Engines& engines, StepSolver& solver, const Verdict& verdict) {
  if (!rules_.may_be_contradicted(verdict) || !here_ || summary_.unknowns > here_->most_undamped())
    return verdict;
  const StepReport report = here_->try_step(rules_.undamped_request()).report;
  summary_.times.linear_solver_seconds += report.linear_seconds;
  const StepRules::Undamped undamped = rules_.judge_undamped(report);
  if (undamped == StepRules::Undamped::agrees) return verdict;
  if (undamped == StepRules::Undamped::unsettled) {
    const bool known = rules_.may_ask_exactly() && summary_.unknowns <= kMostCurved &&
                       has_exact_model(engines.here(), model_) &&
                       std::ranges::none_of(model_.model.terms, [](const runtime::Term& term) {
                         return has_corners(term.topology->program);
                       });
    if (known) ask_exact_model(engines, solver);
    if (!known || rules_.check_exact_gain()) return verdict;
    rules_.doubt(report.model_decrease);
  }
  if (summary_.num_iterations() < options_.max_iterations) return {};
  const bool zero = point().cost <= kZero * summary_.initial_cost;
  return zero ? verdict : Verdict{End::iterations};
}

std::vector<std::uint32_t> Minimizer::find_lost(std::span<const double> x,
                                                std::span<const double> squares) const {
  std::vector<std::uint32_t> lost;
  for (std::uint32_t k = 0; k < squares.size(); ++k)
    if (LostColumns::may_be_lost(squares[k], x[k] - first_[k], point().cost)) lost.push_back(k);
  return lost;
}

/// Second derivatives leave nothing to gain, and say of each of these unknowns that the cost would
/// be higher with it back where it began.
bool Minimizer::holds_exactly(Engines& engines, StepSolver& solver, std::span<const double> x,
                              std::span<const std::uint32_t> lost) {
  if (!rules_.may_ask_exactly()) return false;
  std::vector<LeastCurvature> asked;
  asked.reserve(lost.size());
  for (const std::uint32_t k : lost)
    asked.push_back({k, LostColumns::least_curvature(x[k] - first_[k], point().cost,
                                                     options_.function_tolerance)});
  ask_exact_model(engines, solver, asked);
  return static_cast<bool>(rules_.check_exact_gain());
}

bool Minimizer::reconsider(Engines& engines, StepSolver& solver) {
  if (first_.empty() || !here_) return false;
  bool ended = control_.finished();
  const bool converged = ended && termination(verdict_.end) == Termination::CONVERGENCE;
  if (ended && !converged && !lost_columns_.is_open()) return leave_valley(engines, solver);
  std::vector<double> x(model_.model.scalars), squares;
  engines.here().point(x);
  if (converged || !ended) squares = here_->column_squares();
  std::vector<std::uint32_t> lost = find_lost(x, squares);
  if (!lost.empty() && holds_exactly(engines, solver, x, lost)) {
    lost.clear();
    if (!ended) end(rules_.check_exact_gain());
    ended = true;
  }
  if (!ended && lost.empty()) return leave_saddle(engines, solver, x, squares);
  const Verdict here = ended ? verdict_ : Verdict{End::lost_columns};
  if (lost_columns_.is_open()) {
    const bool better =
        lost_columns_.settle(point().cost, here, !lost.empty(), options_.function_tolerance);
    if (!better) move_to(engines, solver, left_);
    if (ended || !better) end(lost_columns_.verdict());
    if (!better) return false;
  }
  left_ = std::move(x);
  if (!lost.empty() && turn(engines, solver, here, lost, squares)) return true;
  return leave_saddle(engines, solver, left_, squares);
}

/// A curved valley that is no minimum may be a saddle.
bool Minimizer::leave_valley(Engines& engines, StepSolver& solver) {
  if (verdict_.end != End::curved_valley) return false;
  std::vector<double> x(model_.model.scalars);
  engines.here().point(x);
  return leave_saddle(engines, solver, x, here_->column_squares());
}

void Minimizer::move_to(Engines& engines, StepSolver& solver, std::span<const double> x) {
  engines.here().set_point(x);
  linearize(engines, solver);
  summary_.final_cost = point().cost;
}

/// Goes on with these unknowns where they began, if they had columns there.
///
///   squares  column_squares() here
bool Minimizer::turn(Engines& engines, StepSolver& solver, const Verdict& verdict,
                     std::span<const std::uint32_t> lost, std::span<const double> squares) {
  if (!lost_columns_.may_turn() || summary_.num_iterations() >= options_.max_iterations)
    return false;
  const double cost = point().cost;
  std::vector<double> back = left_;
  for (const std::uint32_t k : lost) back[k] = first_[k];
  move_to(engines, solver, back);
  const std::vector<double> before = here_ ? here_->column_squares() : std::vector<double>();
  const bool had =
      !before.empty() && !out_of_range(point()) && std::ranges::any_of(lost, [&](std::uint32_t k) {
        return LostColumns::is_lost(squares[k], before[k]);
      });
  if (!had) {
    move_to(engines, solver, left_);
    return false;
  }
  lost_columns_.turn(cost, verdict, back == first_);
  begin_again(engines, solver);
  if (lost_columns_.shortness() > 0) rules_.begin_short(lost_columns_.shortness());
  return true;
}

/// Forgets the steps before; the minimisation goes on from the engine's point.
void Minimizer::begin_again(Engines& engines, StepSolver& solver) {
  solver.begin_solve();
  runtime::damped_steps(engines.here()).begin_solve();
  StepRules rules = make_rules();
  rules.follow_start(rules_);
  rules_ = rules;
  set_forcing(engines, solver);
  linearize(engines, solver);
  prepare_steps(engines.here());
  rules_.start(point().cost);
  gain_.start(point().cost);
  verdict_ = {};
  steps_before_ = summary_.num_successful_steps;
  control_.go_on();
}

namespace {

/// One of the last steps gained about what it promised.
bool foretold(const Summary& summary) {
  constexpr int kLast = 3;
  constexpr double kAbout = 0.5;
  int seen = 0;
  for (auto step = summary.iterations.rbegin(); step != summary.iterations.rend(); ++step) {
    if (!step->step_is_successful || step->iteration == 0) continue;
    if (std::abs(step->relative_decrease - 1) <= kAbout) return true;
    if (++seen == kLast) break;
  }
  return false;
}

}  // namespace

/// A gradient of zero says nothing where unknowns are at the zero of a square or at a kink, or
/// where columns depend on each other: goes on from a point of lower cost beside such a point.
/// Returns false where there is none.
///
///   x        the point
///   squares  column_squares() here
bool Minimizer::leave_saddle(Engines& engines, StepSolver& solver, std::span<const double> x,
                             std::span<const double> squares) {
  const bool ended = control_.finished();
  const bool failed = ended && termination(verdict_.end) != Termination::CONVERGENCE &&
                      verdict_.end != End::curved_valley;
  // Without columns, refused steps are no reason to look, but where the minimisation began.
  const bool refused = !ended && squares.empty() && summary_.num_successful_steps > steps_before_;
  // Refused steps may lead on yet, though their columns depend on each other. A device would
  // compile kernels of products with JᵀJ to know.
  const bool dependent = ended && rules_.may_ask_exactly() && summary_.unknowns <= kMostCurved &&
                         engines.here().backend() == runtime::Backend::cpu;
  const bool looked = point().cost == looked_beside_ && (looked_at_dependence_ || !dependent);
  if (failed || refused || looked || !rules_.may_leave_saddle() ||
      summary_.num_iterations() >= options_.max_iterations)
    return false;
  const double before = looked_beside_ = point().cost;
  looked_at_dependence_ = dependent;
  const BesideEnd beside = topograd::leave_saddle(
      engines.here(), model_,
      {.x = x,
       .start = first_,
       .cost = before,
       .least = rules_.least_contradiction(),
       .unit = rounding_unit(options_.precision),
       .columns = {.squares = {squares.begin(), squares.end()},
                   .noise = gradient_noise(squares, point(), rounding_unit(options_.precision))},
       .dependent = dependent,
       .nowhere = summary_.num_successful_steps == 0 && point().gradient_max_norm == 0,
       // Turned points have the bits of the host's functions.
       .turns = ended && options_.bits == Bits::native,
       .foretold = foretold(summary_)});
  if (!beside.step) {
    // Nothing is asked of the point of an end again.
    if (beside.looked && !ended) linearize(engines, solver);
    return false;
  }
  move_to(engines, solver, beside.step->x);
  ++summary_.num_successful_steps;
  begin_again(engines, solver);
  record({.iteration = summary_.num_iterations() + 1,
          .cost = point().cost,
          .cost_change = before - point().cost,
          .step_norm = beside.step->step_norm});
  return true;
}

void Minimizer::end(const Verdict& verdict) {
  if (!verdict) return;
  finish(termination(verdict.end), text(verdict, options_));
  verdict_ = verdict;
}

void Minimizer::finish(Termination termination, std::string message) {
  verdict_ = {};
  control_.finish(termination, std::move(message));
}

void Minimizer::record(IterationSummary iteration) {
  iteration.gradient_max_norm = point().gradient_max_norm;
  iteration.gradient_norm = point().gradient_norm;
  iteration.trust_region_radius = rules_.radius();
  control_.record(iteration);
}

}  // namespace topograd
