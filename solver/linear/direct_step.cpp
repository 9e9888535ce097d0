// Steps by direct solvers on the host.
#include "direct_step.hpp"

#include "../../ir/machine/state_record.hpp"
#include "../../ir/machine/stopwatch.hpp"
#include "../../runtime/engine/column_scaling.hpp"
#include "../../runtime/profile.hpp"
#include "../plan/decide.hpp"
#include "../step_control/convergence.hpp"
#include "factor/dense_rows.hpp"
#include "factor/factorization.hpp"
#include "factor/normal_equations.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

namespace topograd {
namespace {

using Clock = std::chrono::steady_clock;

// Gain below which a step is corrected by its second-order error.
constexpr double kPoorGain = 0.75;

// Most unknowns whose Jacobian is decomposed where a factor of the normal equations hides too much.
constexpr std::uint64_t kMostByRows = 256;

/// Steps of Ceres are not corrected, and a device does not give its residuals for so little.
bool may_correct(const runtime::Engine& engine, const runtime::StepRequest& request) {
  return request.scale_free && request.rule && request.rule->rescales &&
         engine.backend() == runtime::Backend::cpu;
}

Elimination elimination_for(LinearSolver kind, const runtime::Model& model,
                            const EliminationHint& hint) {
  return form_of(kind) == LinearForm::factor ? Elimination{} : find_elimination(model, hint);
}

}  // namespace

std::string vanished_pivots_note(std::uint64_t count) {
  if (count == 0) return {};
  return "; " + std::to_string(count) + (count == 1 ? " pivot" : " pivots") +
         " of the factors vanished: these unknowns did not move in the step";
}

struct DirectStep::Impl {
  struct Asked {
    LinearSolver kind = LinearSolver::cholesky;
    runtime::cpu::CpuWork work;
    EliminationHint hint;                  // for eliminations of schur
    std::optional<SchurIteration> limits;  // for schur by conjugate gradients
    FactorPlace factor = FactorPlace::automatic;
  };

  /// `found`: the elimination; none for cholesky.
  Impl(const runtime::Model& of, Asked what, const Elimination& found)
      : model(of),
        asked(std::move(what)),
        revision(of.revision),
        gradient(of.scalars),
        delta(of.scalars) {
    by_blocks = host_solver(asked.kind, false, found.pays()) == LinearSolver::schur;
    if (!by_blocks) {
      // Small systems have rows to go on with instead of leaving out pivots.
      system = make_matrix_system(model, asked.work, asked.factor, most_of_small());
    } else if (asked.limits) {
      system = make_iterative_system(model, asked.work, found, *asked.limits);
    } else {
      system = make_row_schur(model, found, asked.work);
    }
    damping.resize(system->size());
  }

  /// Scales columns by StepRequest's rule.
  void set_scale(const runtime::StepRequest& request, runtime::Engine& engine) {
    if (request.scale_free && !request.keeps_damping && is_small()) {
      if (scale.empty()) scale_by_size(engine);
      return;
    }
    const bool later = !scale.empty();
    if (later && !request.scale_free) return;
    scale.resize(system->size());
    for (std::size_t k = 0; k < scale.size(); ++k) {
      const double here =
          runtime::column_scale(request.scale_free ? 0 : 1, std::sqrt(system->diagonal(k)));
      scale[k] = later ? runtime::first_scale(scale[k], here) : here;
    }
  }

  /// Scales columns by 1 / (‖r‖ / |x| + ‖column‖) at the first point.
  void scale_by_size(runtime::Engine& engine) {
    std::vector<double> x(model.scalars);
    engine.point(x);
    const double residuals = residual_norm(cost);
    scale.resize(system->size());
    for (std::size_t k = 0; k < scale.size(); ++k) {
      const double size = std::abs(x[system->free_scalars()[k]]);
      scale[k] = runtime::column_scale(runtime::column_unit(residuals, size),
                                       std::sqrt(system->diagonal(k)));
    }
  }

  /// column_damping(), with the diagonal from UndeterminedBlocks, as much of it as is added in
  /// working precision.
  void set_damping(runtime::StepRequest request, runtime::Engine& engine) {
    set_scale(request, engine);
    if (request.keeps_damping && is_small())
      request.min_diagonal = std::max(request.min_diagonal, runtime::kLeastDiagonalOfSmall);
    if (request.scale_free) system->damping_diagonal(diagonal);
    for (std::size_t k = 0; k < damping.size(); ++k) {
      const double entry = request.scale_free ? diagonal[k] : system->diagonal(k);
      const double s = request.jacobi_scaling ? scale[k] : 1.0;
      const double damped = system->diagonal(k) + runtime::column_damping(entry, s * s, request);
      damping[k] = damped - system->diagonal(k);
    }
  }

  /// Most unknowns for which a dense Jacobian serves.
  std::uint64_t most_of_small() const { return most_unknowns(model.rows, kLargestReadBack); }
  bool is_small() const { return system->size() <= most_of_small(); }
  /// The last factor may hide more than its step gains, and a QR of the rows shows it soon enough.
  bool needs_rows(double decrease) const {
    return hidden > decrease && system->size() <= DirectStep::most_by_rows(model);
  }

  /// Solves without damping: by a factor of which each pivot has digits, else by QR of the
  /// Jacobian.
  bool solve_undamped(runtime::Engine& engine, double& decrease) {
    const std::unique_ptr<NormalSystem> exact =
        make_matrix_system(model, asked.work, FactorPlace::host, kMostByRows, kUnitsOfExact);
    exact->refresh(engine);
    std::ranges::fill(damping, 0.0);
    hidden = 0;
    return solve_by(*exact, decrease) || solve_by_rows(engine, false, decrease);
  }

  /// Solves by QR of the Jacobian at the engine's point.
  ///
  ///   damped  D is not 0
  bool solve_by_rows(runtime::Engine& engine, bool damped, double& decrease) {
    if (!rows) rows = std::make_unique<DenseRows>(model, system->free_scalars());
    if (!std::exchange(rows_are_current, true)) rows->refresh(engine);
    const auto n = static_cast<Eigen::Index>(damping.size());
    Eigen::VectorXd scales(n);
    for (Eigen::Index k = 0; k < n; ++k) {
      const auto at = static_cast<std::size_t>(k);
      scales[k] = scale_of_rows(scale[at], system->diagonal(at), damped);
    }
    const auto solution = rows->solve(added().cwiseMax(0), scales);
    if (!solution) return false;
    decrease = rows->decrease(*solution);
    spread(*solution);
    return true;
  }

  void spread(const Eigen::VectorXd& solution) {
    const std::span<const std::uint32_t> free = system->free_scalars();
    std::fill(delta.begin(), delta.end(), 0.0);
    for (std::size_t k = 0; k < free.size(); ++k)
      delta[free[k]] = solution[static_cast<Eigen::Index>(k)];
  }

  Eigen::Map<const Eigen::VectorXd> added() const {
    return {damping.data(), static_cast<Eigen::Index>(damping.size())};
  }

  bool factor(NormalSystem& by, const Eigen::VectorXd& minus_gradient) {
    const runtime::TimedPass timed(runtime::TimedWork::cpu, "factor");
    if (!by.factor(damping, minus_gradient)) return false;
    vanished += by.vanished();
    return true;
  }

  static Eigen::VectorXd back_substitute(NormalSystem& by) {
    const runtime::TimedPass timed(runtime::TimedWork::cpu, "back_substitution");
    return by.solve();
  }

  /// Computes δ and the model's decrease. Returns false if the matrix is not positive definite.
  bool solve(double& decrease) { return solve_by(*system, decrease); }
  bool solve_by(NormalSystem& by, double& decrease) {
    const std::span<const std::uint32_t> free = by.free_scalars();
    Eigen::VectorXd minus_gradient(static_cast<Eigen::Index>(free.size()));
    for (std::size_t k = 0; k < free.size(); ++k)
      minus_gradient[static_cast<Eigen::Index>(k)] = -gradient[free[k]];
    if (!factor(by, minus_gradient)) return false;
    const Eigen::VectorXd solution = back_substitute(by);
    if (!solution.allFinite()) return false;
    hidden = by.hidden_decrease(solution);
    const double along = solution.dot(minus_gradient);
    // δ·JᵀJ δ. An exact solution of (JᵀJ + D) δ = −g gives it without a product.
    const double square = asked.limits || is_small() ? by.square(solution)
                                                     : along - added().dot(solution.cwiseAbs2());
    decrease = along - 0.5 * square;
    spread(solution);
    return true;
  }

  /// Corrects a trial that gained little by its second-order error, and keeps the better one.
  ///
  /// With w = r(x + δ) − r − J δ, the step δ − (JᵀJ + λD)⁻¹ Jᵀ w follows a curved valley that the
  /// line leaves; the factor serves again. Source: Transtrum and Sethna, Improvements to the
  /// Levenberg-Marquardt algorithm for nonlinear least-squares minimization, 2012; Nocedal and
  /// Wright, Numerical Optimization, 2nd ed., section 18.3.
  void correct(runtime::Engine& engine, double decrease, runtime::StepReport& report) {
    if (!corrects() || !(decrease > 0) || !std::isfinite(report.trial_cost)) return;
    if (!(cost - report.trial_cost < kPoorGain * decrease)) return;
    const runtime::TimedPass timed(runtime::TimedWork::cpu, "correction");
    const std::span<const std::uint32_t> free = system->free_scalars();
    Eigen::VectorXd step(static_cast<Eigen::Index>(free.size()));
    for (std::size_t k = 0; k < free.size(); ++k)
      step[static_cast<Eigen::Index>(k)] = delta[free[k]];
    std::vector<double> error = system->rows_along(step);
    if (error.empty()) return;
    add_curvature(engine, error);
    const Eigen::VectorXd corrected = step + system->correct(error);
    runtime::DampedSteps& trials = runtime::damped_steps(engine);
    if (corrected.allFinite()) {
      spread(corrected);
      const runtime::StepReport other = trials.try_step(std::span<const double>(delta));
      if (other.trial_cost < report.trial_cost) {
        report = other;
        return;
      }
    }
    spread(step);
    report = trials.try_step(std::span<const double>(delta));
  }

  /// error := r(x + δ) − r − error.
  void add_curvature(runtime::Engine& engine, std::vector<double>& error) const {
    std::vector<double> x(model.scalars), residuals(model.rows);
    engine.point(x);
    engine.residuals(residuals);
    for (std::size_t k = 0; k < error.size(); ++k) error[k] = -residuals[k] - error[k];
    std::vector<double> trial = x;
    for (std::size_t k = 0; k < x.size(); ++k) trial[k] += delta[k];
    engine.set_point(trial);
    engine.residuals(residuals);
    engine.set_point(x);
    for (std::size_t k = 0; k < error.size(); ++k) error[k] += residuals[k];
  }

  bool corrects() const {
    return by_blocks && !asked.limits && DirectStep::has_rows_of_cost(model);
  }

  const runtime::Model& model;
  Asked asked;
  std::uint64_t revision;  // of the model that `system` describes
  std::unique_ptr<NormalSystem> system;
  std::vector<double> damping, diagonal;  // λD, and the diagonal for it; free scalars
  std::vector<double> gradient, delta;    // all scalars
  std::vector<double> scale;  // of columns, by free scalars; empty before the first step
  double cost = 0;            // at the engine's point
  bool by_blocks = false;
  std::unique_ptr<DenseRows> rows;  // made on first use
  bool rows_are_current = false, by_rows = false;
  int steps = 0, failed = 0;   // in this solve: steps so far, and the first by rows
  std::uint64_t vanished = 0;  // pivots in this solve
  double hidden = 0;           // by those of the last factor
};

DirectStep::DirectStep(const runtime::Model& model, LinearSolver kind,
                       const runtime::cpu::CpuWork& work, const EliminationHint& hint,
                       const std::optional<SchurIteration>& limits,
                       std::optional<Elimination> found, FactorPlace factor)
    : impl_(
          std::make_unique<Impl>(model, Impl::Asked{kind, work, hint, limits, factor},
                                 found ? std::move(*found) : elimination_for(kind, model, hint))) {}
DirectStep::~DirectStep() = default;

std::uint64_t DirectStep::most_by_rows(const runtime::Model& model) {
  return most_unknowns(model.rows, kMostByRows);
}

bool DirectStep::has_rows_of_cost(const runtime::Model& model) {
  // Rows of losses are not those of residuals().
  return model.rows > 0 && std::ranges::none_of(model.terms, [](const runtime::Term& term) {
           return term.energy || term.loss != nullptr;
         });
}

std::uint64_t DirectStep::most_undamped(const runtime::Engine&) const {
  return most_by_rows(impl_->model);
}

std::vector<double> DirectStep::column_squares(runtime::Engine&) {
  std::vector<double> squares(impl_->model.scalars, std::numeric_limits<double>::quiet_NaN());
  const std::span<const std::uint32_t> free = impl_->system->free_scalars();
  for (std::size_t k = 0; k < free.size(); ++k) squares[free[k]] = impl_->system->diagonal(k);
  return squares;
}

void DirectStep::begin_solve() {
  impl_->scale.clear();
  impl_->by_rows = false;
  impl_->steps = 0;
  impl_->vanished = 0;
}

void DirectStep::transfer(ir::StateRecord& record) {
  record.list("column scaling", impl_->scale);
  if (!impl_->scale.empty() && impl_->scale.size() != impl_->system->size())
    record.refuse("column scaling", "has another length");
  record.value("solves by rows", impl_->by_rows);
  record.in_range("steps of the factor", impl_->steps, 0, 1 << 30);
  record.value("first step by rows", impl_->failed);
  record.value("vanished pivots", impl_->vanished);
}

std::string DirectStep::note() const {
  if (!impl_->by_rows) return vanished_pivots_note(impl_->vanished);
  return "; from step " + std::to_string(impl_->failed) + " on by QR of the Jacobian: " +
         (impl_->vanished > 0 ? "pivots of the factored matrix vanished"
                              : "the factored matrix was not positive definite");
}

LinearSolver DirectStep::kind() const {
  if (impl_->by_rows) return LinearSolver::dense;
  return impl_->by_blocks ? LinearSolver::schur : LinearSolver::cholesky;
}

double DirectStep::factor_entries() const { return impl_->system->entries(); }
double DirectStep::factor_flops() const { return impl_->system->flops(); }

std::vector<runtime::Need> DirectStep::needs() const {
  using runtime::Need;
  std::vector<Need> needs = {Need{}, Need::evaluation(runtime::Pass::gradient),
                             Need::evaluation(runtime::Pass::jacobian)};
  if (impl_->by_rows) needs.push_back(Need::evaluation(runtime::Pass::residual));
  return needs;
}

void DirectStep::linearized(runtime::Engine& engine, runtime::PointReport& point) {
  if (impl_->revision != impl_->model.revision) {
    std::vector<double> scale = std::move(impl_->scale);
    const bool by_rows = impl_->by_rows;
    const int steps = impl_->steps, failed = impl_->failed;
    const std::uint64_t vanished = impl_->vanished;
    Elimination found = elimination_for(impl_->asked.kind, impl_->model, impl_->asked.hint);
    impl_ = std::make_unique<Impl>(impl_->model, std::move(impl_->asked), std::move(found));
    impl_->scale = std::move(scale);
    impl_->by_rows = by_rows;
    impl_->steps = steps;
    impl_->failed = failed;
    impl_->vanished = vanished;
  }
  impl_->rows_are_current = false;
  impl_->cost = point.cost;
  {
    const runtime::TimedPass timed(runtime::TimedWork::cpu, "normal_equations");
    impl_->system->refresh(engine);
  }
  engine.gradient(impl_->gradient);
}

runtime::StepReport DirectStep::try_step(runtime::Engine& engine,
                                         const runtime::StepRequest& request) {
  const Clock::time_point begin = Clock::now();
  impl_->set_damping(request, engine);
  impl_->system->stop_at({.tolerance = request.linear_tolerance,
                          .max_iterations = request.max_linear_iterations,
                          .eta = request.eta,
                          .energy_norm = request.energy_norm});
  double decrease = std::numeric_limits<double>::quiet_NaN();
  ++impl_->steps;
  const bool exact =
      request.lambda == 0 && !impl_->by_rows && impl_->system->size() <= most_by_rows(impl_->model);
  bool solved =
      exact ? impl_->solve_undamped(engine, decrease) : !impl_->by_rows && impl_->solve(decrease);
  const bool rows = exact    ? false
                    : solved ? impl_->needs_rows(decrease)
                             : impl_->is_small() || impl_->by_rows;
  if (rows && impl_->solve_by_rows(engine, request.lambda > 0, decrease)) {
    solved = true;
    impl_->hidden = 0;
    // That the matrix is singular without damping says nothing about other steps.
    if (request.lambda > 0 && !std::exchange(impl_->by_rows, true)) impl_->failed = impl_->steps;
  }
  const double seconds = seconds_since(begin);
  runtime::StepReport report;
  if (solved) {
    report = runtime::damped_steps(engine).try_step(std::span<const double>(impl_->delta));
    if (!rows && may_correct(engine, request)) impl_->correct(engine, decrease, report);
    report.slope =
        std::inner_product(impl_->delta.begin(), impl_->delta.end(), impl_->gradient.begin(), 0.0);
  }
  report.model_decrease = decrease;
  report.hidden_decrease = impl_->hidden;
  report.linear_iterations = impl_->by_rows ? 0 : impl_->system->iterations();
  report.linear_seconds = seconds;
  return report;
}

}  // namespace topograd
