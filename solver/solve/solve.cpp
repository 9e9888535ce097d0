// solve(): from a problem to its minimum by the method it gets, and back to the caller's memory.
#include "../solve.hpp"

#include "../../frontend/inspect/problem_use.hpp"
#include "../../frontend/problem.hpp"
#include "../../ir/error.hpp"
#include "../../ir/machine/platform.hpp"
#include "../../ir/machine/stopwatch.hpp"
#include "../../runtime/profile.hpp"
#include "../checkpoint/checkpoints.hpp"
#include "../components/component_route.hpp"
#include "../components/separate.hpp"
#include "../constrained/augmented_lagrangian.hpp"
#include "../constrained/barrier.hpp"
#include "../constrained/constrained_run.hpp"
#include "../first_order/minimize.hpp"
#include "../host/tangent_space.hpp"
#include "../interrupts.hpp"
#include "../linear/factor/elimination.hpp"
#include "../model/host_terms.hpp"
#include "../model/inspect.hpp"
#include "../model/model.hpp"
#include "../model/nonfinite.hpp"
#include "../model/residual_rounding.hpp"
#include "../options.hpp"
#include "../session/session.hpp"
#include "../solve_watch.hpp"
#include "../step_control/trust_region.hpp"
#include "../summary.hpp"
#include "after_solve.hpp"
#include "ahead.hpp"
#include "levenberg_marquardt.hpp"
#include "solve_session.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace topograd {
namespace {

void refuse_energies(const Problem& problem, Method method) {
  if (takes_energies(method)) return;
  for (std::size_t t = 0; t < problem.topology_count(); ++t) {
    if (!problem.is_energy(t) || problem.batch(t).size() == 0) continue;
    std::string label(problem.label(t));
    if (label.empty()) label = "energy" + std::to_string(t);
    throw Error(ErrorCode::Unsupported, "solve: " + std::string(name(method)) +
                                            " minimises sums of squares, the energy \"" + label +
                                            "\" is none; use lbfgs, newton, adam, adamw or sgd");
  }
}

void refuse_constraints(const Problem& problem, Method method) {
  if (problem.constraint_count() == 0) return;
  throw Error(ErrorCode::Unsupported,
              "solve: " + std::string(name(method)) + " knows no constraints, the problem has " +
                  std::to_string(problem.constraint_count()) +
                  "; use augmented_lagrangian, or barrier from a start inside of them");
}

/// Newton's method asks for what opaque code does not tell.
void refuse_host_blocks(const Problem& problem, Method method) {
  if (method != Method::newton || problem.host_blocks().empty()) return;
  throw Error(ErrorCode::Unsupported,
              "solve: newton takes second derivatives, " + host_name(problem, 0) +
                  " has none; use levenberg_marquardt, lbfgs, adam, adamw or sgd");
}

constexpr int kBarrierEvaluations = 60;

void refuse(Method method, const std::string& why) {
  throw Error(ErrorCode::Unsupported, "solve: " + std::string(name(method)) + " " + why);
}

/// The choice of Method::automatic: least squares, unless there are constraints or energies.
Method chosen_method(const Problem& problem) {
  if (problem.constraint_count() > 0) return Method::augmented_lagrangian;
  return problem.energy_count() > 0 ? Method::lbfgs : Method::levenberg_marquardt;
}

/// Throws Error{Unsupported} for a method that does not know what the problem has: energies,
/// constraints, or (for second derivatives) residuals on the host.
///
///   constrained  the method is that of the minimisations of a method for constraints
void check_method(const Problem& problem, Method method, bool constrained) {
  if (!constrained) refuse_constraints(problem, method);
  refuse_energies(problem, method);
  refuse_host_blocks(problem, method);
}

/// For the methods that take any objective: L-BFGS knows manifolds, it and Newton's method bounds,
/// and no method both. Throws Error{Unsupported} for what the method does not know, and the errors
/// of TangentSpace::check_bounds().
///
///   x  (scalars) the start
void check_bounds_and_manifolds(const Problem& problem, Method method, std::span<const double> x) {
  const bool bounded = has_bounds(problem);
  if (!bounded && !problem.has_manifolds()) return;
  const TangentSpace space(problem);
  const bool curved = !space.blocks().empty();
  if (bounded) space.check_bounds("solve", x);
  const bool lbfgs = method == Method::lbfgs;
  const bool knows_bounds = lbfgs || method == Method::newton;
  const bool refuses_bounds = bounded && (!knows_bounds || curved);
  if (!refuses_bounds && (!curved || lbfgs)) return;
  std::string others =
      problem.energy_count() > 0 ? "" : "levenberg_marquardt, gauss_newton, dogleg";
  if (!(bounded && curved)) others += (others.empty() ? "" : ", ") + std::string("lbfgs");
  if (!curved) others += ", newton";
  throw Error(ErrorCode::Unsupported, "solve: " + std::string(name(method)) + " knows no " +
                                          (!refuses_bounds ? "manifolds"
                                           : curved        ? "bounds beside manifolds"
                                                           : "bounds") +
                                          (others.empty() ? "" : "; expected one of " + others));
}

/// Options of the minimisations that a method for constraints makes: their method, and tolerances
/// that leave the end to the gradient. Throws Error{Unsupported} for what the method does not know,
/// such as checkpoints.
SolverOptions inner_options(SolverOptions options, const Problem& problem) {
  const Method outer = options.method;
  const bool barrier = outer == Method::barrier;
  if (!options.checkpoint.file.empty() || !options.resume.empty())
    refuse(outer, "writes and resumes no checkpoints; expected empty checkpoint.file and resume");
  if (barrier && options.precision == Precision::f32)
    refuse(outer, "divides by constraints that are nearly 0; expected precision f64, got f32");
  if (barrier && options.domain != DomainPolicy::mathematical)
    refuse(outer, "goes by logarithms outside of their domain; expected domain mathematical, got " +
                      std::string(name(options.domain)));
  const bool squares = problem.energy_count() == 0 && !barrier;
  const bool curves = !problem.has_manifolds() && problem.host_blocks().empty();
  options.method = squares ? Method::levenberg_marquardt : curves ? Method::newton : Method::lbfgs;
  // Conjugate gradients without a preconditioner do not see beyond the curvature of barriers.
  if (barrier && options.linear_solver == LinearSolver::automatic)
    options.linear_solver = LinearSolver::cholesky;
  // The least c decides how far a step may go: a search halves its step until all c > 0.
  if (barrier)
    options.line_search.max_evaluations =
        std::max(options.line_search.max_evaluations, kBarrierEvaluations);
  options.function_tolerance = options.parameter_tolerance = options.gradient_tolerance = 0;
  return options;
}

/// Runs the outer loop of a method for constraints; fills in costs, termination, message and
/// Summary::constrained.
///
///   model  has constraint_terms(method)
void run_constrained(Method method, Problem& problem, const ProblemModel& model,
                     const SolverOptions& options, Summary& summary, InnerSolves& inner) {
  if (method == Method::barrier) {
    Barrier(problem, model, options, summary, inner).run();
  } else {
    AugmentedLagrangian(problem, model, options, summary, inner).run();
  }
}

using Clock = std::chrono::steady_clock;

}  // namespace

struct Solver::Impl {
  Impl(Problem& problem, const SolverOptions& options, const MakeEngine& make, SolveGroup* group)
      : asked(options),
        group_(group),
        caller_(problem),
        state_{.problem = ProblemUse::view_of(problem)},
        watch_(group),
        makes_engine_(static_cast<bool>(make)),
        session_(state_, make) {
    resolved(asked);  // refuses what is out of range here, not in the first solve
  }

  Summary solve() {
    const Clock::time_point begin = Clock::now();
    ProblemUse::require_present(caller_, state_.problem, "solver");
    const ProblemUse use(caller_, "solve", [this] { save_best(); });
    watch_.begin(use);
    begin_call();
    begin_profile();
    const runtime::Profile::Use profiled(profile_.get());
    try {
      follow();
      prepare();
      if (!minimize_separately()) state_.constrained() ? minimize_constrained() : minimize();
    } catch (const std::bad_alloc&) {
      tell_group();
      save_best();
      session_.close();
      throw Error(ErrorCode::OutOfHostMemory, out_of_memory(state_.model.model));
    } catch (...) {
      tell_group();
      save_best();
      session_.close();
      throw;
    }
    write_back();
    Summary& summary = state_.summary;
    if (watch_.interrupted())
      summary.message = Interrupts::came() ? Interrupts::message() : "interrupted";
    describe_rounding();
    summary.advice = advise(summary);
    describe_branches();
    versions_ = state_.problem.versions();  // branches may have brought topologies
    summary.times.total_seconds = seconds_since(begin);
    if (const auto& route = session_.get().route)
      route->ended(session_.on_device(), summary.times.total_seconds, summary);
    if (session_.is_short()) add_short_solve(summary.times.total_seconds);
    summary.times.total_seconds += summary.resumed_seconds;
    if (profile_ != nullptr) describe_profile(*profile_, copy_rate(), summary);
    const AfterSolve look = after_solve.load();
    if (look != nullptr && !makes_engine_ && group_ == nullptr)
      look(state_.problem, state_.options, summary);
    return std::move(summary);
  }

  WarmUp warm_up() {
    const Clock::time_point begin = Clock::now();
    runtime::EngineStats before;
    set_up(
        "warm_up",
        [&] {
          if (session_.is_open()) {
            before = session_.engines().stats();
          } else {
            state_.facts.at_once = true;
            session_.open();
          }
          make_kernels(session_.engines(), state_.model, state_.options, session_.steps(),
                       state_.best.x);
        },
        [&] { before = {}; });
    const runtime::EngineStats made = session_.engines().stats() - before;
    WarmUp out{made, made, std::string(name(session_.get().planned_backend())),
               session_.engine().device(), session_.get().reason()};
    out.device_bytes = made.device_bytes;
    out.seconds = seconds_since(begin);
    return out;
  }

  Evaluation evaluate(Numbers x, const Wanted& wanted) {
    Evaluation out;
    const auto run = [&] {
      const runtime::Model& model = state_.model.model;
      if (x.size() != model.scalars)
        throw Error(ErrorCode::Shape, "solver: x needs " + std::to_string(model.scalars) +
                                          " numbers, got " + std::to_string(x.size()));
      out = values_at(session_.engines(), session_.get().follows_branches, model, x, wanted);
    };
    set_up(
        "evaluate",
        [&] {
          if (const std::size_t constraints = state_.problem.constraint_count(); constraints > 0)
            throw Error(ErrorCode::Unsupported,
                        "solver: evaluate knows no constraints, the problem has " +
                            std::to_string(constraints) + "; use an Evaluator");
          if (!session_.is_open()) session_.open();
          run();
        },
        run);
    versions_ = state_.problem.versions();  // branches may have brought topologies
    return out;
  }

  /// The Solver ends.
  void end() noexcept { watch_.end_solver(); }

  SolverOptions asked;

 private:
  /// Follows the problem and runs `f`, which opens a session if there is none; after a failure of a
  /// device that `automatic` had chosen, runs `again` with a session on the CPU.
  template <class F, class Again>
  void set_up(const char* call, const F& f, const Again& again) {
    ProblemUse::require_present(caller_, state_.problem, "solver");
    const ProblemUse use(caller_, call, [] {});
    begin_call();
    begin_profile();
    const runtime::Profile::Use profiled(profile_.get());
    try {
      follow();
      prepare();
      f();
    } catch (const Error& error) {
      if (!session_.may_take_over(error)) {
        session_.close();
        throw;
      }
      session_.take_over(error);
      again();
    } catch (...) {
      session_.close();
      throw;
    }
  }

  /// Begins with an empty summary, of the present Problem: another one may have been moved to its
  /// place.
  void begin_call() {
    state_.counts = {};
    state_.summary = {};
    if (ProblemUse::is_same(caller_, state_.problem)) return;
    session_.close();
    state_.problem = ProblemUse::view_of(caller_);
  }

  /// Recorded commands take times, or none: a session of the other kind ends.
  void begin_profile() {
    if (asked.profile && group_ != nullptr)
      throw Error(ErrorCode::Unsupported,
                  "solve: profile expects a solve by one process; --trace shows several");
    if (asked.profile != (profile_ != nullptr)) session_.close();
    profile_ = asked.profile ? std::make_unique<runtime::Profile>() : nullptr;
  }

  /// Bytes per second of a copy where the kernels run; 0: unknown.
  double copy_rate() {
    const runtime::Profile::Use none(nullptr);
    if (!session_.is_open()) return 0;
    runtime::EngineMeasurements* const known = session_.engine().abilities().measurements;
    try {
      return known == nullptr ? 0 : known->copy_rate();
    } catch (const Error&) {
      return 0;  // no memory for it
    } catch (const std::bad_alloc&) {
      return 0;
    }
  }

  /// Brings options and model up to what was asked for and changed since the last solve.
  void follow() {
    SolverOptions& options = state_.options;
    options = resolved(asked);
    if (options.method == Method::automatic) options.method = chosen_method(state_.problem);
    state_.outer_method = options.method;
    settle_long_blocks();
    if (state_.constrained()) options = inner_options(options, state_.problem);
    check_method(state_.problem, options.method, state_.constrained());
    options.callback = [this](const IterationSummary& iteration) { return after_step(iteration); };
    if (session_.should_look()) session_.close();
    follow_problem();
  }

  /// Newton's method takes second derivatives, and other processes only blocks with kernels.
  void settle_long_blocks() const {
    const Problem& problem = state_.problem;
    const Method method = state_.options.method;
    const bool by_newton = method == Method::newton || method == Method::barrier ||
                           (state_.constrained() && problem.energy_count() > 0);
    ProblemUse::settle_long_blocks(problem, by_newton || group_ != nullptr);
  }

  /// Brings model and engine up to what has changed of the problem.
  void follow_problem() {
    const Versions now = state_.problem.versions();
    if (session_.is_open() && now == versions_) return;
    const bool guarded = state_.options.domain == DomainPolicy::guarded;
    const bool rebuilds = !session_.is_open() || now.structure != versions_.structure || guarded;
    if (rebuilds) session_.close();  // before what it refers to
    ProblemModel& model = state_.model;
    const std::uint64_t revision = model.model.revision;
    model = model_of_solve(state_.problem, constraint_terms(state_.outer_method), group_);
    // Linear solvers know the unknowns that were free, and on the host the engine's tangent spaces.
    const bool same_unknowns =
        now.constants == versions_.constants && session_.get().host == nullptr;
    model.model.revision = same_unknowns ? revision : revision + 1;
    if (guarded) guard_domains(model, state_.options.domain_epsilon);
    if (!rebuilds) session_.engines().refresh(model.model);
    versions_ = now;
  }

  CallbackReturn after_step(const IterationSummary& iteration) {
    state_.summary.iterations.back().on_device = session_.on_device();
    if (const SolveWatch* const watch = SolveWatch::current())
      watch->tell({.iteration = &iteration});
    StepWatch::Ask ask;
    if (asked.callback) {
      ask = [&] {
        const runtime::TimedPass timed(runtime::TimedWork::host, "callback");
        if (state_.options.update_state_every_iteration) save_best();
        const runtime::Profile::Use none(nullptr);
        return asked.callback(iteration);
      };
    }
    return watch_.after(iteration, session_.engines(), ask);
  }

  /// In a handler: the group decides about the error while the engine can still be asked.
  void tell_group() const {
    if (group_ != nullptr) group_->failed(text_of_current_error());
  }

  /// Reads and checks the start of the solve.
  void prepare() {
    const Problem& problem = state_.problem;
    const SolverOptions& options = state_.options;
    Summary& summary = state_.summary;
    std::vector<double>& x = state_.best.x;
    x.resize(state_.model.model.scalars);
    problem.read_x(x);
    check_start("solve", problem, x);
    check_manifolds("solve", problem, x);
    reduce_manifolds(problem, x);
    state_.hint = elimination_hint(problem, options);
    const HostNeeds needs_before = state_.facts.needs;
    check_modelling();
    if (state_.facts.needs != needs_before) session_.close();
    describe_problem(state_, reads_.of(state_.model));
    if (options.method == Method::lbfgs && asked.method == Method::automatic)
      summary.method_note = "chosen for the energies, which are no squares";
    if (state_.constrained()) {
      summary.method_note = asked.method == Method::automatic ? "chosen for the constraints; " : "";
      summary.method_note += "steps by " + std::string(name(options.method));
    }
    checkpoints_ = options.checkpoint.file.empty() && options.resume.empty()
                       ? nullptr
                       : std::make_unique<Checkpoints>(options, summary, group_);
    // A state belongs to one backend: no interpreter serves before the device.
    state_.facts.at_once = checkpoints_ != nullptr;
    minimizer_ = std::make_unique<Minimizer>(options, state_.model, summary, checkpoints_.get());
  }

  /// Finds out whether there is what asks for steps on the host, and refuses what cannot be done.
  void check_modelling() {
    const Problem& problem = state_.problem;
    const SolverOptions& options = state_.options;
    ProblemFacts& facts = state_.facts;
    const bool moved_by_engines = group_ == nullptr || group_->moves_blocks();
    facts = {.needs = {.bounds = has_bounds(problem),
                       .manifolds = problem.has_manifolds(),
                       .host_residuals = !problem.host_blocks().empty()},
             .engine_manifolds = moved_by_engines && state_.model.model.manifolds != nullptr};
    if (takes_energies(options.method))
      return check_bounds_and_manifolds(problem, options.method, state_.best.x);
    const TangentSpace space(problem);
    space.check_bounds("solve", state_.best.x);
    facts.nothing_free = space.size() == 0;
    if (!facts.nothing_free) {
      facts.needs.dogleg = options.method == Method::dogleg;
      if (form_of(options.linear_solver) == LinearForm::jacobian)
        facts.needs.solver = options.linear_solver;
    }
    if (facts.want_host()) state_.summary.unknowns = space.size();
  }

  /// Until a rule ends it; once more on the CPU if a device fails that `automatic` had chosen.
  /// SolveSession::open() meets failures of the set-up.
  void minimize() {
    Summary& summary = state_.summary;
    const bool goes_on = session_.is_open();
    if (!goes_on) session_.open();
    // StepWatch looks for the signal after each step. A checkpoint would have the bits of a step
    // that ended early.
    std::optional<platform::EndableWork> endable;
    if (!state_.options.deterministic || state_.options.checkpoint.file.empty()) endable.emplace();
    try {
      if (goes_on) session_.go_on();
      run_method();
    } catch (const Error& error) {
      if (!session_.may_take_over(error)) throw;
      summary.num_repeated_steps += keep_best();
      session_.count_work();
      watch_.change_engines();
      session_.take_over(error);
      run_method();
    }
    keep_best();
    if (const auto& route = session_.get().route)
      route->measured_steps(session_.on_device(), watch_.step_seconds());
    session_.describe_backend();
    session_.count_work();
    const StepSolver* const steps = session_.steps();
    if (steps == nullptr) return;
    summary.linear_solver = steps->kind();  // the host's are settled at the first
    summary.linear_solver_note += steps->note();
  }

  /// Solves by component; false if the problem is to be solved as one.
  bool minimize_separately() {
    Summary& summary = state_.summary;
    const SolverOptions& options = state_.options;
    const std::chrono::steady_clock::time_point begin = Clock::now();
    SolverOptions facts = options;
    facts.callback = asked.callback;  // this Solver's own is always there
    ComponentChoice choice =
        state_.constrained() && asked.components != Components::separate
            ? ComponentChoice{}
            : choose_components(state_.model, facts, group_ != nullptr || makes_engine_);
    summary.components.separate = choice.separate;
    summary.components.why = choice.why;
    if (!choice.separate) return false;
    const ComponentGroups groups = choice.search->groups(options.bits);
    if (!groups.obstacle.empty()) {
      if (asked.components == Components::separate)
        throw Error(ErrorCode::Unsupported,
                    "solve: components separate does not know a problem in "
                    "which " +
                        groups.obstacle + "; use components together");
      summary.components = {.why = groups.obstacle};
      return false;
    }
    ComponentRoute route(groups, options, true);
    const MinimizerDevice* const device = route.decide();
    if (asked.components != Components::separate && options.backend == Backend::vulkan) {
      if (const std::string why = route.obstacle(); !why.empty()) {
        summary.components = {.why = "the device does not know " + why};
        return false;
      }
    }
    choice.search = nullptr;
    session_.close();
    summary.times.plan_seconds += seconds_since(begin);
    run_components(groups, route, device);
    return true;
  }

  /// Solves for components where the route has chosen; on the CPU if the chosen device fails.
  void run_components(const ComponentGroups& groups, ComponentRoute& route,
                      const MinimizerDevice* chosen) {
    const runtime::Model& model = state_.model.model;
    const platform::EndableWork endable;
    const auto run = [&](const MinimizerDevice* device) {
      const Clock::time_point begin = Clock::now();
      ComponentSolver(groups, state_.options, model.lower, model.upper, ComponentSolver::Runs::once,
                      device)
          .run(state_.best.x, state_.summary);
      route.ended(seconds_since(begin), true);
    };
    try {
      run(chosen);
    } catch (const Error& failure) {
      if (!route.take_over(failure)) throw;
      run(nullptr);
    }
    route.describe(state_.summary);
  }

  /// The minimisations of a solve with constraints.
  class Inner final : public InnerSolves {
   public:
    explicit Inner(Impl& impl) : impl_(impl), state_(impl.state_) {}
    runtime::Engine& engine(runtime::Pass pass) override {
      impl_.follow_problem();
      if (!impl_.session_.is_open()) impl_.session_.open();
      return impl_.session_.engines().at(pass, state_.best.x);
    }
    std::span<const double> point() const override { return state_.best.x; }
    void move(std::span<const double> x) override { state_.best.x.assign(x.begin(), x.end()); }
    void minimize(double bound, std::span<const double> units, bool anew) override {
      SolverOptions& options = state_.options;
      options.absolute_gradient_tolerance = bound;
      options.max_iterations = state_.summary.num_iterations() + impl_.asked.max_iterations;
      const double first = impl_.asked.initial_trust_region_radius;
      const auto& before = state_.summary.iterations;
      const bool goes_on = !anew && !before.empty() && before.back().iteration > 0;
      options.initial_trust_region_radius =
          goes_on ? TrustRegion::next_first(before.back().trust_region_radius, first) : first;
      impl_.follow_problem();
      state_.model.gradient_units.assign(units.begin(), units.end());
      impl_.minimizer_ = std::make_unique<Minimizer>(options, state_.model, state_.summary);
      impl_.minimize();
      impl_.versions_ = state_.problem.versions();  // branches may have brought topologies
    }

   private:
    Impl& impl_;
    SolveState& state_;
  };

  /// Once more from the best point, without multipliers, if a device fails between minimisations.
  void minimize_constrained() {
    Inner inner(*this);
    const auto run = [&] {
      run_constrained(state_.outer_method, state_.problem, state_.model, state_.options,
                      state_.summary, inner);
    };
    try {
      run();
    } catch (const Error& error) {
      if (!session_.may_take_over(error)) throw;
      session_.take_over(error);
      run();
    }
  }

  void run_method() {
    const runtime::Profile::Watch watched;
    if (checkpoints_) identify(*checkpoints_);
    if (takes_energies(state_.options.method)) {
      minimize_cost(session_.engines(), state_.model, state_.best.x, state_.options, state_.summary,
                    state_.best.elsewhere, checkpoints_.get());
    } else {
      minimizer_->run(session_.engines(), *session_.steps());
    }
  }

  /// Says what the solve is, and moves to the point of the one that it resumes.
  void identify(Checkpoints& checkpoints) {
    std::vector<double>& x = state_.best.x;
    const SolveBackend where = {.backend = std::string(name(session_.engine().backend())),
                                .linear_solver = std::string(linear_solver_name(state_.summary))};
    if (!checkpoints.identify(facts_of(state_.model, state_.options, where, x), x)) return;
    check_manifolds("solve", state_.problem, x);
    if (has_bounds(state_.problem)) TangentSpace(state_.problem).check_bounds("solve", x);
    session_.engine().set_point(x);
  }

  /// Brings the best accepted point to the host, as far as it can still be had. Returns how many
  /// steps were accepted after it.
  int keep_best() noexcept {
    const int accepted = state_.summary.num_successful_steps;
    if (accepted == 0 || !session_.is_open()) return 0;
    if (!takes_energies(state_.options.method))
      return state_.best.fetch(session_.engine(), state_.model.model, accepted);
    state_.best.fetch_elsewhere();
    return 0;
  }

  /// Brings the best accepted point to the caller's memory.
  void save_best() noexcept {
    keep_best();
    // Nonmonotonic steps may have left it.
    if (minimizer_ && !minimizer_->best().empty())
      state_.best.take(minimizer_->best(), state_.model.model);
    write_back();
  }

  void write_back() noexcept {
    if (state_.summary.num_successful_steps == 0 || watch_.problem_ended()) return;
    state_.problem.write_x(state_.best.x);
  }

  /// Says so where residuals that are rounding have ended a solve.
  void describe_rounding() {
    Summary& summary = state_.summary;
    const bool ended = summary.termination == Termination::CONVERGENCE ||
                       summary.termination == Termination::NO_CONVERGENCE;
    if (!ended || state_.constrained() || state_.model.shares != nullptr ||
        state_.model.model.rows == 0)
      return;
    const ResidualRounding found =
        residual_rounding(state_.model, state_.best.x, summary.precision);
    const double start = std::sqrt(2 * std::max(summary.initial_cost, 0.0) /
                                   static_cast<double>(state_.model.model.rows));
    if (!found.hides(summary.precision, start)) return;
    summary.message += found.text();
    if (found.is_all()) summary.termination = Termination::NO_CONVERGENCE;
  }

  /// As the solve left them: branches may have brought new ones.
  void describe_branches() {
    std::vector<double> x(state_.model.model.scalars);
    // After a rejected trial, too.
    if (session_.get().follows_branches) session_.engine().point(x);
    state_.summary.num_retraces = state_.counts.retraces;
    state_.summary.num_flips = state_.counts.flips;
    state_.summary.topologies = topologies_of(state_.model);
  }

  std::unique_ptr<runtime::Profile> profile_;  // of the present solve; null: nothing is timed
  SolveGroup* group_;                          // null: this process alone
  Problem& caller_;                            // the caller's Problem, read where a solve begins
  SolveState state_;
  Versions versions_;  // that model and session are of
  StepWatch watch_;
  ReadsOfModel reads_;
  std::unique_ptr<Checkpoints> checkpoints_;  // null: none are written, and nothing is resumed
  std::unique_ptr<Minimizer> minimizer_;
  bool makes_engine_;  // another one than the library's
  SolveSession session_;
};

Solver::Solver(Problem& problem, const SolverOptions& options, const MakeEngine& make,
               SolveGroup* group)
    : impl_(std::make_shared<Impl>(problem, options, make, group)) {}
Solver::Solver(Solver&&) noexcept = default;
Solver& Solver::operator=(Solver&& other) noexcept {
  if (this == &other) return *this;
  end();
  impl_ = std::move(other.impl_);
  return *this;
}
Solver::~Solver() { end(); }

void Solver::end() noexcept {
  if (impl_ != nullptr) impl_->end();
}

Summary Solver::solve() {
  const std::shared_ptr<Impl> impl = impl_;  // a callback may end this Solver
  return require_not_moved_from(impl, "solver").solve();
}

WarmUp Solver::warm_up() {
  const std::shared_ptr<Impl> impl = impl_;  // as in solve()
  return require_not_moved_from(impl, "solver").warm_up();
}

Evaluation Solver::evaluate(Numbers x, const Wanted& wanted) {
  const std::shared_ptr<Impl> impl = impl_;  // as in solve()
  return require_not_moved_from(impl, "solver").evaluate(x, wanted);
}

WarmUp warm_up(Problem& problem, const SolverOptions& options) {
  return Solver(problem, options).warm_up();
}

Summary solve(Problem& problem, const SolverOptions& options) {
  return Solver(problem, options).solve();
}

}  // namespace topograd
