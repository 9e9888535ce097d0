// Methods for scalar objectives on a problem and its engine, and the end of a descent.
#include "minimize.hpp"

#include "../../ir/error.hpp"
#include "../../ir/machine/state_record.hpp"
#include "../../runtime/profile.hpp"
#include "../host/tangent_space.hpp"
#include "../model/exact_model.hpp"
#include "../model/inspect.hpp"
#include "../model/nonfinite.hpp"
#include "../model/residual_rounding.hpp"
#include "../options.hpp"
#include "../session/engines.hpp"
#include "../step_control/convergence.hpp"
#include "../step_control/lost_columns.hpp"
#include "../step_control/newton_decrement.hpp"
#include "../summary.hpp"
#include "adam.hpp"
#include "control.hpp"
#include "descent.hpp"
#include "end_by_differences.hpp"
#include "lbfgs.hpp"
#include "newton.hpp"
#include "row_model.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <span>
#include <vector>

namespace topograd {
namespace {

/// Asks the exact Hessian where neither the gradient nor the linear model of the residuals says
/// whether the end of a descent is a minimum.
class ExactEnd {
 public:
  /// All outlive it.
  ExactEnd(Engines& engines, const ProblemModel& problem, RowModel& rows,
           const SolverOptions& options)
      : engines_(engines), problem_(problem), rows_(rows), options_(options) {}

  /// The linear model promises what the cost does not follow. False where second derivatives
  /// confirm a minimum, where they are not known, where residuals may have corners, and where their
  /// rounding hides what is promised.
  ///
  ///   promised  by the linear model
  ///   least     that may be left to gain
  bool denies(std::span<const double> x, const Summary& summary, double promised, double least);
  /// A damped step of the exact model from x that gains more than `least`.
  std::optional<ExactStep> step(std::span<const double> x, const Summary& summary, double least);
  /// A point of lower cost beside x, if a column of the Jacobian has vanished there, or depends on
  /// others: where an unknown is at the zero of a square or at a kink, and where two terms are the
  /// same, the gradient says nothing about both sides.
  ///
  ///   start  of the solve
  std::optional<ExactStep> leave_saddle(std::span<const double> x, std::span<const double> start,
                                        const Summary& summary, double least);

 private:
  bool knows(const Summary& summary);
  /// The engine is set to x.
  ColumnFacts columns_at(std::span<const double> x, double cost);

  Engines& engines_;
  const ProblemModel& problem_;
  RowModel& rows_;
  const SolverOptions& options_;
};

bool ExactEnd::knows(const Summary& summary) {
  return rows_.exists() && summary.unknowns <= kMostCurved &&
         has_exact_model(engines_.here(), problem_);
}

ColumnFacts ExactEnd::columns_at(std::span<const double> x, double cost) {
  const RowModel::Columns columns = rows_.columns_at(x);
  runtime::PointReport point;
  point.cost = cost;
  point.scaled_x_norm = columns.terms;
  ColumnFacts out;
  out.noise = gradient_noise(columns.squares, point, rounding_unit(options_.precision));
  out.squares = columns.squares;
  engines_.here().set_point(x);
  return out;
}

bool ExactEnd::denies(std::span<const double> x, const Summary& summary, double promised,
                      double least) {
  const auto& terms = problem_.model.terms;
  if (!knows(summary) || std::ranges::any_of(terms, [](const runtime::Term& term) {
        return has_corners(term.topology->program);
      }))
    return false;
  const double noise = residual_rounding(problem_, x, options_.precision)
                           .noise(static_cast<double>(problem_.model.rows), options_.precision);
  if (promised <= noise) return false;
  const ColumnFacts columns = columns_at(x, summary.final_cost);
  const double unit = rounding_unit(options_.precision);
  return !(exact_gain(engines_.here(), problem_, unit, columns) <= least);
}

std::optional<ExactStep> ExactEnd::step(std::span<const double> x, const Summary& summary,
                                        double least) {
  const ColumnFacts columns = columns_at(x, summary.final_cost);
  std::optional<ExactStep> found =
      exact_step(engines_.here(), problem_, rounding_unit(options_.precision), summary.final_cost,
                 columns, kMostExactTries);
  if (found && !(summary.final_cost - found->cost > least)) found.reset();
  return found;
}

std::optional<ExactStep> ExactEnd::leave_saddle(std::span<const double> x,
                                                std::span<const double> start,
                                                const Summary& summary, double least) {
  if (!rows_.exists()) return std::nullopt;
  engines_.here().set_point(x);
  // Columns on manifolds are by tangents. Other methods have no kernels of the Jacobian.
  const bool has_rows = options_.method == Method::lbfgs || options_.method == Method::newton;
  const ColumnFacts columns = has_rows && !problem_.problem->has_manifolds()
                                  ? columns_at(x, summary.final_cost)
                                  : ColumnFacts();
  const bool few = has_rows && knows(summary);
  const bool nowhere =
      summary.num_successful_steps == 0 && summary.iterations.front().gradient_max_norm == 0;
  // Steps of a descent do not come from the columns.
  return topograd::leave_saddle(engines_.here(), problem_,
                                {.x = x,
                                 .start = start,
                                 .cost = summary.final_cost,
                                 .least = least,
                                 .unit = rounding_unit(options_.precision),
                                 .columns = columns,
                                 .by_columns = false,
                                 .dependent = few,
                                 .nowhere = nowhere,
                                 .foretold = summary.num_successful_steps > 0})
      .step;
}

void minimize_newton(Engines& engines, const ProblemModel& problem_model,
                     const Objective& objective, RowModel& rows, std::span<double> x,
                     const SolverOptions& options, Summary& summary, Checkpoints* checkpoints) {
  const runtime::Model& model = problem_model.model;
  if (form_of(options.linear_solver) == LinearForm::products) {
    TruncatedNewton direction(engines, model, rows, options.max_linear_iterations,
                              options.linear_tolerance);
    descend(objective, direction, x, options, summary, {}, checkpoints);
    return;
  }
  ProjectedNewton direction(engines, model, rows,
                            problem_model.constraints == ConstraintTerms::barriers);
  descend(objective, direction, x, options, summary, {}, checkpoints);
}

/// The cost as a function of the coordinates of the problem's tangent spaces.
class ManifoldCost {
 public:
  ManifoldCost(Engines& engines, const runtime::Model& model, const Problem& problem)
      : inner_(cost_of(engines, model)), space_(problem), ambient_(model.scalars) {}

  const TangentSpace& space() const { return space_; }
  bool moves() const { return space_.size() > 0 && !space_.blocks().empty(); }
  /// Refers to this.
  Objective objective() const {
    return {.size = inner_.size,
            .tangent_size = space_.size(),
            .evaluate = [this](std::span<const double> x,
                               std::span<double> gradient) { return evaluate(x, gradient); },
            .plus =
                [this](std::span<const double> x, std::span<const double> step,
                       std::span<double> result) {
                  if (!space_.plus(x, step, result)) std::ranges::fill(result, kRefused);
                }};
  }

  /// x − start in coordinates of the tangents at x.
  void way(std::span<const double> start, std::span<const double> x, std::span<double> out) const {
    std::vector<double> step(x.size());
    for (std::size_t k = 0; k < x.size(); ++k) step[k] = x[k] - start[k];
    if (!space_.basis(x, basis_)) {
      std::ranges::fill(out, kRefused);
      return;
    }
    space_.project(basis_, step, out);
    for (const TangentSpace::Block& block : space_.blocks()) {
      for (std::uint32_t t = 0; t < block.tangent; ++t) {
        double squared = 0;  // of the tangent vector, whose units a coordinate has
        for (std::uint32_t k = 0; k < block.width; ++k)
          squared += std::pow(basis_[block.basis + k * block.tangent + t], 2);
        if (squared > 0) out[block.column + t] /= squared;
      }
    }
  }

 private:
  static constexpr double kRefused = std::numeric_limits<double>::quiet_NaN();

  double evaluate(std::span<const double> x, std::span<double> gradient) const {
    if (gradient.empty()) return inner_.evaluate(x, gradient);
    const double cost = inner_.evaluate(x, ambient_);
    if (!space_.basis(x, basis_)) return kRefused;
    space_.project(basis_, ambient_, gradient);
    return cost;
  }

  Objective inner_;
  TangentSpace space_;
  mutable std::vector<double> ambient_, basis_;
};

/// Compares the gradient at the end of a descent with what its message claims.
class LastCheck {
 public:
  /// All outlive it.
  ///
  ///   start  of the solve
  LastCheck(const Objective& objective, RowModel& rows, ExactEnd& exact,
            const ManifoldCost* manifolds, std::vector<double> start, const SolverOptions& options)
      : objective_(objective),
        rows_(rows),
        exact_(exact),
        manifolds_(manifolds),
        start_(std::move(start)),
        options_(options) {}

  /// What a resumed solve needs to come to the verdict of the whole one.
  void transfer(ir::StateRecord& record) {
    const std::size_t size = start_.size();
    record.list("start", start_);
    if (start_.size() != size) record.refuse("start", "has another length");
    record.in_range("returns", returns_, 0, kMostReturns);
    rows_.transfer(record);
  }
  /// A contradicted descent goes on; false if that was so too often.
  bool returns() { return ++returns_ <= kMostReturns; }

  /// Takes steps of the row model at the end of a solve that says CONVERGENCE, if they bring more
  /// than the solve claims to be left.
  EndByRows improve_by_rows(std::span<double> x, Summary& summary) const {
    if (summary.termination != Termination::CONVERGENCE || ends_by_gradient(options_) ||
        !options_.scale_free)
      return EndByRows::unknown;
    const runtime::TimedPass timed(runtime::TimedWork::cpu, "last_check");
    // The cost itself shows what such a step gains. A cost that is zero beside the start gains
    // nothing.
    const double gained = summary.initial_cost - summary.final_cost;
    const double zero =
        std::min(std::max(claimed(summary), std::pow(options_.parameter_tolerance, 2) * gained),
                 kZero * summary.initial_cost);
    const double change =
        std::max(options_.function_tolerance, kCostRounding * cost_unit(options_)) *
        summary.final_cost;
    return improve(rows_, objective_, {change, zero, kMostPromised}, x, options_, summary);
  }

  /// Judges an end that the linear model denies: second derivatives confirm it, or give the next
  /// step, or there is no end here.
  EndByRows decide(std::span<double> x, Summary& summary) const {
    const runtime::TimedPass timed(runtime::TimedWork::cpu, "last_check");
    const double least = kMostPromised * claimed(summary);
    std::vector<double> gradient(objective_.steps());
    objective_.evaluate(x, gradient);
    Box(objective_).project(x, gradient);
    const RowModel::Linearised here = rows_.linearise(x, gradient);
    const double promised = here.steps ? here.steps->promised(0) : 0;
    if (!exact_.denies(x, summary, promised, least)) return EndByRows::agrees;
    const std::optional<ExactStep> step = exact_.step(x, summary, least);
    if (!step) return EndByRows::denied;
    return take(*step, x, summary) ? EndByRows::improved : EndByRows::stopped;
  }
  /// Goes on from a saddle at which a column has vanished, also if the square of its gradient has
  /// underflowed so that no direction leads down. False if there is none, or the caller's callback
  /// ends the solve.
  bool leaves_saddle(std::span<double> x, Summary& summary) const {
    const bool ended = summary.termination == Termination::CONVERGENCE ||
                       summary.termination == Termination::FAILURE;
    if (!ended || ends_by_gradient(options_) || !options_.scale_free ||
        summary.num_iterations() >= options_.max_iterations)
      return false;
    const runtime::TimedPass timed(runtime::TimedWork::cpu, "last_check");
    const std::optional<ExactStep> step = exact_.leave_saddle(x, start_, summary, claimed(summary));
    return step && take(*step, x, summary);
  }

  /// Goes on from a point that differences of gradients show, where no row model has judged.
  bool goes_on_by_differences(std::span<double> x, Summary& summary) const {
    if (rows_.exists() && summary.termination != Termination::FAILURE) return false;
    const runtime::TimedPass timed(runtime::TimedWork::cpu, "last_check");
    std::vector<double> sizes = unknown_sizes(x, start_, objective_);
    if (manifolds_ != nullptr) manifolds_->way(start_, x, sizes);
    for (double& size : sizes) size = std::isfinite(size) ? std::abs(size) : 0;
    return topograd::goes_on_by_differences(objective_, sizes, rows_, x, options_, summary);
  }

  /// Sets Summary::optimality, the measure of optimality_of(). True if the solve says CONVERGENCE,
  /// but its gradient promises a larger decrease.
  bool contradicts(std::span<const double> x, Summary& summary) const {
    if (summary.termination != Termination::CONVERGENCE || ends_by_gradient(options_)) return false;
    std::vector<double> gradient(objective_.steps()), way(objective_.steps());
    objective_.evaluate(x, gradient);
    Box(objective_).project(x, gradient);
    if (manifolds_ != nullptr) {
      manifolds_->way(start_, x, way);
    } else {
      for (std::size_t k = 0; k < way.size(); ++k) way[k] = x[k] - start_[k];
    }
    const double gained = summary.initial_cost - summary.final_cost;
    summary.optimality = optimality_of(gradient, way, gained);
    if (!options_.scale_free || norms_of(gradient).max <= gradient_bound(summary)) return false;
    const double promised = summary.optimality * summary.optimality * gained;
    return std::min(promised, promised_by_model(summary)) > kMostPromised * claimed(summary);
  }

 private:
  /// After a whole step of newton at most ‖g‖ ‖δ‖ is left: where the curvature is larger than along
  /// the way, the gradient promises less than it does with that of the way. Otherwise infinity.
  double promised_by_model(const Summary& summary) const {
    const IterationSummary& last = summary.iterations.back();
    const bool whole = last.step_is_successful && last.step_size >= 1;
    return options_.method == Method::newton && whole ? last.gradient_norm * last.step_norm
                                                      : std::numeric_limits<double>::infinity();
  }

  // A cost that counts as zero, as a share of the one at the start.
  static constexpr double kZero = 1e-20;
  // The decrease that a gradient may promise, in units of the one that the message claims.
  static constexpr double kMostPromised = 10;

  /// Moves x. False if the callback ends the solve.
  bool take(const ExactStep& step, std::span<double> x, Summary& summary) const {
    std::ranges::copy(step.x, x.begin());
    std::vector<double> gradient(objective_.steps());
    const double cost = objective_.evaluate(x, gradient);
    Box(objective_).project(x, gradient);
    return record_step_beside({.cost = cost,
                               .cost_change = summary.final_cost - cost,
                               .step_norm = step.step_norm,
                               .evaluations = 1},
                              norms_of(gradient), options_, summary);
  }

  double claimed(const Summary& summary) const {
    return claimed_decrease(options_, summary, summary.final_cost);
  }

  /// Gradients up to this end a solve by a tolerance of their own.
  double gradient_bound(const Summary& summary) const {
    const double start = SolveControl::kShareOfStart * recent_gradient(summary);
    return std::max(options_.gradient_tolerance * start, options_.absolute_gradient_tolerance);
  }

  const Objective& objective_;
  RowModel& rows_;
  ExactEnd& exact_;
  const ManifoldCost* manifolds_;
  std::vector<double> start_;
  const SolverOptions& options_;
  int returns_ = 0;
};

constexpr const char* kCurvedValley =
    "steps bring no more, but the linear model of the residuals promises what the cost does not "
    "follow, and second derivatives know no minimum here (a curved valley)";

/// Runs a descent until neither a saddle, the gradient nor a step of the row model speaks against
/// its end.
template <class Run>
void descend_to_the_end(const Objective& objective, LastCheck& check, bool escapes,
                        std::span<double> x, const SolverOptions& options, Summary& summary,
                        const Run& run) {
  do {
    do run();
    while ((escapes && escape(objective, x, options, summary)) || check.leaves_saddle(x, summary));
    const bool contradicted = check.contradicts(x, summary);
    EndByRows by_rows = check.improve_by_rows(x, summary);
    if (by_rows == EndByRows::denied) by_rows = check.decide(x, summary);
    if (by_rows == EndByRows::agrees || by_rows == EndByRows::stopped) return;
    if (by_rows == EndByRows::unknown && !check.goes_on_by_differences(x, summary) && !contradicted)
      return;
    if (by_rows == EndByRows::denied) {
      summary.termination = Termination::NO_CONVERGENCE;
      summary.message = kCurvedValley;
      return;
    }
  } while (check.returns());
  summary.termination = Termination::NO_CONVERGENCE;
  summary.message += kPromisesMore;
}

/// The engines if their own steps may be made: no option needs points on the host.
Engines* steps_of(Engines& engines, bool has_manifolds, const SolverOptions& options) {
  const bool shows_points =
      options.update_state_every_iteration || options.domain == DomainPolicy::strict;
  return has_manifolds || shows_points ? nullptr : &engines;
}

/// Runs L-BFGS, and continues on the engine's vectors as soon as their kernels are ready, without
/// the host's history. Those know no scales: where unknowns have different ones, it stays here.
void run_lbfgs(Engines& engines, Engines* source, const Objective& objective, RowModel& rows,
               std::span<double> x, const SolverOptions& options, Summary& summary,
               BestElsewhere& elsewhere, Checkpoints* checkpoints) {
  if (rows.scales().empty()) rows.look(x);
  runtime::DescentSteps* steps = nullptr;
  const auto ready = [&] {
    if (source && rows.scales().empty()) steps = source->descent_steps(true);
    return steps != nullptr;
  };
  if (!ready() && minimize_lbfgs(objective, x, options, summary, ready, checkpoints, &rows)) return;
  engines.here().set_point(x);
  const BestElsewhere::Scope ahead(&elsewhere, [steps, x] { steps->descent_point(x); });
  minimize_lbfgs(*steps, x, options, summary, checkpoints);
}

/// Runs Adam and its relatives the same way, but passes the means of gradients on.
void run_rules(Engines& engines, Engines* source, const Objective& objective, std::span<double> x,
               const SolverOptions& options, Summary& summary, BestElsewhere& elsewhere,
               Checkpoints* checkpoints) {
  const auto steps_at = [&](std::span<const double> at) {
    runtime::FirstOrderSteps* const steps = source ? source->first_order_steps(true) : nullptr;
    if (steps) engines.here().set_point(at);
    return steps;
  };
  minimize_first_order(objective, x, options, summary, steps_at, &elsewhere, checkpoints);
}

void run_method(Engines& engines, const ProblemModel& problem_model, const Inspector& inspector,
                std::span<double> x, const SolverOptions& options, Summary& summary,
                BestElsewhere& elsewhere, Checkpoints* checkpoints) {
  const runtime::Model& model = problem_model.model;
  const Problem& problem = *problem_model.problem;
  std::optional<ManifoldCost> on_manifolds;
  if (problem.has_manifolds()) on_manifolds.emplace(engines, model, problem);
  const bool curved = on_manifolds && on_manifolds->moves();
  Objective objective = curved ? on_manifolds->objective() : cost_of(engines, model);
  objective.lower = model.lower;
  objective.upper = model.upper;
  std::vector<double> units = problem_model.gradient_units;
  if (curved && !units.empty()) units = on_manifolds->space().by_coordinate(units);
  objective.gradient_units = units;
  objective.evaluate = [&engines, &inspector, &summary, inner = objective.evaluate](
                           std::span<const double> at, std::span<double> gradient) {
    inspector.check_domains(engines.here(), at,
                            summary.iterations.empty() ? "at the start" : "at a trial");
    return inner(at, gradient);
  };
  Engines* const steps = steps_of(engines, curved || objective.bounded(), options);
  const bool escapes = problem.energy_count() > 0;
  RowModel rows(engines, problem_model, options.precision,
                curved ? &on_manifolds->space() : nullptr);
  ExactEnd exact(engines, problem_model, rows, options);
  LastCheck check(objective, rows, exact, curved ? &*on_manifolds : nullptr, {x.begin(), x.end()},
                  options);
  if (checkpoints != nullptr)
    checkpoints->keep([&check](ir::StateRecord& record) { check.transfer(record); });
  switch (options.method) {
    case Method::lbfgs:
      return descend_to_the_end(objective, check, escapes, x, options, summary, [&] {
        run_lbfgs(engines, steps, objective, rows, x, options, summary, elsewhere, checkpoints);
      });
    case Method::newton:
      return descend_to_the_end(objective, check, escapes, x, options, summary, [&] {
        minimize_newton(engines, problem_model, objective, rows, x, options, summary, checkpoints);
      });
    case Method::adam:
    case Method::adamw:
    case Method::sgd:
      do run_rules(engines, steps, objective, x, options, summary, elsewhere, checkpoints);
      while (check.leaves_saddle(x, summary));
      check.contradicts(x, summary);  // apart from saddles it ends by the gradient alone
      return;
    case Method::levenberg_marquardt:
    case Method::gauss_newton:
    case Method::dogleg:
    case Method::augmented_lagrangian:
    case Method::barrier:
    case Method::automatic: break;
  }
  throw Error(ErrorCode::Internal, "minimise: " + std::string(name(options.method)) +
                                       " is no method for scalar objectives");
}

}  // namespace

Objective cost_of(Engines& engines, const runtime::Model& model) {
  const auto evaluate = [&engines, &model](std::span<const double> x, std::span<double> gradient) {
    using runtime::Pass;
    runtime::Engine& engine = engines.at(gradient.empty() ? Pass::cost : Pass::cost_gradient, x);
    if (gradient.empty()) return engine.cost();
    double cost = 0;
    runtime::evaluate(engine, {.cost = &cost, .gradient = gradient});
    if (std::isnan(cost)) {
      std::ranges::fill(gradient, cost);
      return cost;
    }
    for (std::size_t k = 0; k < model.constant.size(); ++k) {
      if (model.constant[k] != 0) gradient[k] = 0;
    }
    return cost;
  };
  return {.size = model.scalars,
          .tangent_size = 0,
          .evaluate = evaluate,
          .plus = {},
          .constant = model.constant};
}

void minimize_cost(Engines& engines, const ProblemModel& model, std::span<double> x,
                   const SolverOptions& options, Summary& summary, BestElsewhere& elsewhere,
                   Checkpoints* checkpoints) {
  const Inspector inspector(options, model, summary);
  try {
    run_method(engines, model, inspector, x, options, summary, elsewhere, checkpoints);
  } catch (const Error& error) {
    // Adds the origin of the number, which the minimiser does not know.
    if (error.code() != ErrorCode::NonFinite || summary.num_iterations() > 0) throw;
    throw Error(ErrorCode::NonFinite, "solve: " + describe_nonfinite(engines.here(), model));
  }
}

bool prepare_cost(Engines& engines, const ProblemModel& model, const SolverOptions& options) {
  using runtime::Pass;
  std::vector<Pass> passes = {Pass::cost, Pass::cost_gradient};
  const bool products = form_of(options.linear_solver) == LinearForm::products;
  if (options.method == Method::newton) passes.push_back(products ? Pass::hvp : Pass::hessian);
  const bool is_descent = options.method == Method::lbfgs || options.method == Method::newton;
  if (is_descent && RowModel::exists_for(model)) passes.push_back(Pass::jacobian);
  bool there = true;
  for (const Pass pass : passes)
    there &= engines.prepare(runtime::Need::evaluation(pass));  // starts all
  Engines* const steps = steps_of(engines, model.problem->has_manifolds(), options);
  if (steps == nullptr || options.method == Method::newton) return there;
  if (options.method == Method::lbfgs) {
    steps->descent_steps(false);
  } else {
    steps->first_order_steps(false);
  }
  return there;
}

}  // namespace topograd
