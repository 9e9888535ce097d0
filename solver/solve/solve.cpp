// solve(): from a problem to its minimum, and back to the caller's memory.
#include "../solve.hpp"

#include "../../frontend/inspect/problem_use.hpp"
#include "../../ir/error.hpp"
#include "../../ir/machine/stopwatch.hpp"
#include "../../ir/whole.hpp"
#include "../advice.hpp"
#include "../checkpoint/checkpoints.hpp"
#include "../constrained/constrained.hpp"
#include "../first_order/minimize.hpp"
#include "../host/host_step.hpp"
#include "../interrupts.hpp"
#include "../linear/factor/ordering.hpp"
#include "../linear/system_search.hpp"
#include "../model/model.hpp"
#include "../model/nonfinite.hpp"
#include "../plan/report.hpp"
#include "../session/retrace.hpp"
#include "../session/session.hpp"
#include "../session/values.hpp"
#include "../step_control/trust_region.hpp"
#include "describe.hpp"
#include "kernels_ahead.hpp"
#include "levenberg_marquardt.hpp"
#include "method_checks.hpp"

#include <algorithm>
#include <chrono>
#include <new>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace topograd {
namespace {

using Clock = std::chrono::steady_clock;

}  // namespace

struct Solver::Impl {
  Impl(Problem& problem, const SolverOptions& options, const MakeEngine& make, SolveGroup* group)
      : asked(options),
        make_(make),
        group_(group),
        caller_(problem),
        problem_(ProblemUse::view_of(problem)) {
    resolved(asked);  // refuses what is out of range here, not in the first solve
  }

  Summary solve() {
    const Clock::time_point begin = Clock::now();
    ProblemUse::require_present(caller_, problem_, "solver");
    const ProblemUse use(caller_, "solve", [this] { save_best(); });
    use_ = &use;
    look_at_caller();
    counts_ = {};
    summary_ = {};
    interrupted_ = false;
    step_seconds_.clear();
    try {
      follow();
      prepare();
      constrained() ? minimize_constrained() : minimize();
    } catch (const std::bad_alloc&) {
      tell_group();
      save_best();
      session_ = {};  // in the middle of something
      throw Error(ErrorCode::OutOfHostMemory, out_of_memory(model_.model));
    } catch (...) {
      tell_group();
      save_best();
      session_ = {};  // in the middle of something
      throw;
    }
    write_back();
    if (interrupted_) summary_.message = Interrupts::message();
    summary_.advice = advise(summary_);
    describe_branches();
    versions_ = problem_.versions();  // branches may have brought topologies
    summary_.times.total_seconds = seconds_since(begin);
    if (session_.route) session_.route->ended(on_device(), summary_.times.total_seconds, summary_);
    summary_.times.total_seconds += summary_.resumed_seconds;
    return std::move(summary_);
  }

  WarmUp warm_up() {
    const Clock::time_point begin = Clock::now();
    runtime::EngineStats before;
    set_up(
        "warm_up",
        [&] {
          if (session_.engines) {
            before = session_.engines->stats();
          } else {
            facts_.at_once = true;
            open_first();
          }
          make_kernels(*session_.engines, model_, options_, steps_.get(), x_);
        },
        [&] { before = {}; });
    const runtime::EngineStats made = session_.engines->stats() - before;
    WarmUp out{made, made, std::string(name(session_.planned_backend())),
               session_.engine().device(), session_.reason()};
    out.device_bytes = made.device_bytes;
    out.seconds = seconds_since(begin);
    return out;
  }

  Evaluation evaluate(Numbers x, const Wanted& wanted) {
    Evaluation out;
    const auto run = [&] {
      if (x.size() != model_.model.scalars)
        throw Error(ErrorCode::Shape, "solver: x needs " + std::to_string(model_.model.scalars) +
                                          " numbers, got " + std::to_string(x.size()));
      out = values_at(*session_.engines, session_.follows_branches, model_.model, x, wanted);
    };
    set_up(
        "evaluate",
        [&] {
          if (problem_.constraint_count() > 0)
            throw Error(ErrorCode::Unsupported,
                        "solver: evaluate knows no constraints, the problem has " +
                            std::to_string(problem_.constraint_count()) + "; use an Evaluator");
          if (!session_.engines) open_first();
          run();
        },
        run);
    versions_ = problem_.versions();  // branches may have brought topologies
    return out;
  }

  /// The Solver ends.
  void end() noexcept { solver_ended_ = true; }

  SolverOptions asked;

 private:
  /// Follows the problem and runs `f`, which opens a session if there is none; after a failure of a
  /// device that `automatic` had chosen, runs `again` with a session on the CPU.
  template <class F, class Again>
  void set_up(const char* call, const F& f, const Again& again) {
    ProblemUse::require_present(caller_, problem_, "solver");
    const ProblemUse use(caller_, call, [] {});
    look_at_caller();
    counts_ = {};
    summary_ = {};
    try {
      follow();
      prepare();
      f();
    } catch (const Error& error) {
      if (!session_.plan.backend.may_leave || !is_device_failure(error.code())) {
        session_ = {};
        throw;
      }
      open(take_over(model_, options_, error, session_));
      again();
    } catch (...) {
      session_ = {};
      throw;
    }
  }

  /// Goes by the present Problem: another one may have been moved to its place.
  void look_at_caller() {
    if (ProblemUse::is_same(caller_, problem_)) return;
    session_ = {};
    problem_ = ProblemUse::view_of(caller_);
  }

  /// Brings options and model up to what was asked for and changed since the last solve.
  void follow() {
    options_ = resolved(asked);
    if (options_.method == Method::automatic) options_.method = chosen_method(problem_);
    outer_method_ = options_.method;
    if (constrained()) options_ = inner_options(options_, problem_);
    check_method(problem_, options_.method, constrained());
    options_.callback = [this](const IterationSummary& iteration) {
      note(iteration);
      const CallbackReturn answer =
          asked.callback ? call_back(iteration) : CallbackReturn::SOLVER_CONTINUE;
      refuse_end();
      const bool came = group_ == nullptr ? Interrupts::came() : group_->any(Interrupts::came());
      if (answer != CallbackReturn::SOLVER_CONTINUE || !came) return answer;
      interrupted_ = true;
      return CallbackReturn::SOLVER_TERMINATE_SUCCESSFULLY;
    };
    follow_problem();
  }

  /// Brings model and engine up to what has changed of the problem.
  void follow_problem() {
    const Versions now = problem_.versions();
    if (session_.engines && now == versions_) return;
    const bool rebuilds = !session_.engines || now.structure != versions_.structure ||
                          options_.domain == DomainPolicy::guarded;
    if (rebuilds) session_ = {};  // before what it refers to
    const std::uint64_t revision = model_.model.revision;
    model_ = model_of_solve(problem_, constraint_terms(outer_method_), group_);
    // Linear solvers know the unknowns that were free, and on the host the engine's tangent spaces.
    const bool same_unknowns = now.constants == versions_.constants && !session_.host;
    model_.model.revision = same_unknowns ? revision : revision + 1;
    if (options_.domain == DomainPolicy::guarded) guard_domains(model_, options_.domain_epsilon);
    if (!rebuilds) session_.engines->refresh(model_.model);
    versions_ = now;
  }

  bool constrained() const { return takes_constraints(outer_method_); }
  bool on_device() const { return session_.engine().backend() != runtime::Backend::cpu; }

  /// Remembers how long an outer step took where it ran.
  void note(const IterationSummary& iteration) {
    const bool device = on_device();
    summary_.iterations.back().on_device = device;
    // While kernels are made, the interpreter shares its threads with compilers.
    const double compiled = session_.engines->stats().compile_wall_ms;
    const bool cold = compiled != compiled_ms_;
    compiled_ms_ = compiled;
    if (iteration.iteration == 0 || cold || session_.engines->starting()) return;
    step_seconds_.push_back(iteration.iteration_time_in_seconds - callback_seconds_);
  }

  /// Asks the caller, beside the time of the steps.
  CallbackReturn call_back(const IterationSummary& iteration) {
    const Clock::time_point begin = Clock::now();
    if (options_.update_state_every_iteration) save_best();
    const CallbackReturn answer = asked.callback(iteration);
    callback_seconds_ = seconds_since(begin);
    return answer;
  }

  /// In a handler: the group decides about the error while the engine can still be asked.
  void tell_group() const {
    if (group_ != nullptr) group_->failed(text_of_current_error());
  }

  /// A callback, or a residual on the host, has ended what is solved, or the Solver.
  void refuse_end() const {
    const char* const what = use_->ended() ? "problem" : solver_ended_ ? "Solver" : nullptr;
    if (what == nullptr) return;
    throw Error(ErrorCode::InvalidArgument,
                std::string("solve: the ") + what +
                    " ended inside of a callback of this solve; expected it to live until solve() "
                    "has returned");
  }

  /// Reads and checks the start of the solve.
  void prepare() {
    x_.resize(model_.model.scalars);
    problem_.read_x(x_);
    check_start("solve", problem_, x_);
    check_manifolds("solve", problem_, x_);
    hint_ = elimination_hint(problem_, options_);
    const HostNeeds needs_before = facts_.needs;
    check_modelling();
    if (facts_.needs != needs_before) session_ = {};
    describe_problem();
    if (options_.method == Method::lbfgs && asked.method == Method::automatic)
      summary_.method_note = "chosen for the energies, which are no squares";
    if (constrained()) {
      summary_.method_note =
          asked.method == Method::automatic ? "chosen for the constraints; " : "";
      summary_.method_note += "steps by " + std::string(name(options_.method));
    }
    checkpoints_ = options_.checkpoint.file.empty() && options_.resume.empty()
                       ? nullptr
                       : std::make_unique<Checkpoints>(options_, summary_, group_);
    // A state is of one place: no interpreter serves before the device.
    facts_.at_once = checkpoints_ != nullptr;
    minimizer_ = std::make_unique<Minimizer>(options_, model_, summary_, checkpoints_.get());
  }

  /// Finds out whether there is what asks for steps on the host, and refuses what cannot be done.
  void check_modelling() {
    HostNeeds needs{.bounds = has_bounds(problem_),
                    .manifolds = problem_.has_manifolds(),
                    .host_residuals = !problem_.host_blocks().empty()};
    facts_ = {.needs = needs, .device_manifolds = model_.model.manifolds != nullptr};
    if (takes_energies(options_.method))
      return check_bounds_and_manifolds(problem_, options_.method, x_);
    const TangentSpace space(problem_);
    space.check_bounds("solve", x_);
    facts_.nothing_free = space.size() == 0;
    if (!facts_.nothing_free) {
      facts_.needs.dogleg = options_.method == Method::dogleg;
      facts_.needs.dense = options_.linear_solver == LinearSolver::dense;
    }
    if (facts_.want_host()) summary_.unknowns = space.size();
  }

  /// Until a rule ends it; once more on the CPU if a device fails that `automatic` had chosen.
  void minimize() {
    if (session_.engines) {
      go_on();
    } else {
      open_first();
    }
    try {
      run_method();
    } catch (const Error& error) {
      if (!session_.plan.backend.may_leave || !is_device_failure(error.code())) throw;
      summary_.num_repeated_steps += keep_best();
      count_work();
      step_seconds_.clear();
      open(take_over(model_, options_, error, session_));
      run_method();
    }
    keep_best();
    if (session_.route) session_.route->measured_steps(on_device(), step_seconds_);
    describe_place();
    count_work();
    if (!steps_) return;
    summary_.linear_solver = steps_->kind();  // the host's are settled at the first
    summary_.linear_solver_note += steps_->note();
  }

  /// The minimisations of a solve with constraints.
  class Inner final : public InnerSolves {
   public:
    explicit Inner(Impl& impl) : impl_(impl) {}
    runtime::Engine& engine(runtime::Pass pass) override {
      impl_.follow_problem();
      if (!impl_.session_.engines) impl_.open_first();
      return impl_.session_.engines->at(pass, impl_.x_);
    }
    std::span<const double> point() const override { return impl_.x_; }
    void move(std::span<const double> x) override { impl_.x_.assign(x.begin(), x.end()); }
    void minimize(double bound, bool anew) override {
      SolverOptions& options = impl_.options_;
      options.absolute_gradient_tolerance = bound;
      options.max_iterations = impl_.summary_.num_iterations() + impl_.asked.max_iterations;
      const double first = impl_.asked.initial_trust_region_radius;
      const auto& before = impl_.summary_.iterations;
      const bool goes_on = !anew && !before.empty() && before.back().iteration > 0;
      options.initial_trust_region_radius =
          goes_on ? TrustRegion::next_first(before.back().trust_region_radius, first) : first;
      impl_.follow_problem();
      impl_.minimizer_ = std::make_unique<Minimizer>(options, impl_.model_, impl_.summary_);
      impl_.minimize();
      impl_.versions_ = impl_.problem_.versions();  // branches may have brought topologies
    }

   private:
    Impl& impl_;
  };

  /// Once more from the best point, without multipliers, if a device fails between minimisations.
  void minimize_constrained() {
    Inner inner(*this);
    const auto run = [&] {
      run_constrained(outer_method_, problem_, model_, options_, summary_, inner);
    };
    try {
      run();
    } catch (const Error& error) {
      if (!session_.plan.backend.may_leave || !is_device_failure(error.code())) throw;
      open(take_over(model_, options_, error, session_));
      run();
    }
  }

  void run_method() {
    if (checkpoints_) identify(*checkpoints_);
    if (takes_energies(options_.method)) {
      minimize_cost(*session_.engines, model_, x_, options_, summary_, elsewhere_,
                    checkpoints_.get());
    } else {
      minimizer_->run(*session_.engines, *steps_);
    }
  }

  /// Says what the solve is, and moves to the point of the one that it resumes.
  void identify(Checkpoints& checkpoints) {
    const SolvePlace place = {.backend = std::string(name(session_.engine().backend())),
                              .linear_solver = std::string(linear_solver_name(summary_))};
    if (!checkpoints.identify(facts_of(model_, options_, place, x_), x_)) return;
    check_manifolds("solve", problem_, x_);
    if (has_bounds(problem_)) TangentSpace(problem_).check_bounds("solve", x_);
    session_.engine().set_point(x_);
  }

  void count_work() {
    summary_.add(session_.engines->stats() - before_);
    const runtime::DampedSteps& steps = *session_.engine().abilities().steps;
    const runtime::PreconditionerUse use = steps.preconditioner();
    summary_.preconditioner = use.kind;
    summary_.preconditioner_note = preconditioner_text(session_.plan, use);
    const runtime::NormalMatrixUse matrix = steps.normal_matrix();
    summary_.normal_matrix = matrix.assembled ? NormalMatrix::assembled : NormalMatrix::matrix_free;
    summary_.normal_matrix_note = text(matrix.why);
  }

  void open_first() { open(open_session(model_, options_, facts_, "solve", make_)); }

  /// Decides how steps are made on a new engine, and makes what solves for them.
  void open(Session session) {
    session_ = std::move(session);
    follow_branches(session_, "solve", problem_, model_, options_, counts_);
    steps_ = nullptr;
    const Clock::time_point begin = Clock::now();
    SystemSearch search(model_.model, options_, session_.engines->planned(), hint_);
    Plan& plan = session_.plan;
    SystemFacts& system = session_.problem.system.emplace(search.facts());
    while ((plan = decide(session_.problem, options_, session_.machine)).next != Fact::none)
      search.find(plan.next, system);
    if (plan.steps == StepPlace::host) session_ = on_host(std::move(session_), model_);
    if (options_.method == Method::newton) options_.linear_solver = plan.linear.kind;
    if (plan.linear.reason == LinearReason::steps_on_host) {
      steps_ = std::make_unique<HostStep>(*session_.host, model_.model, options_, hint_);
    } else if (!takes_energies(options_.method)) {
      steps_ = search.make(plan.linear);
    }
    summary_.times.plan_seconds += seconds_since(begin);
    before_ = {};
    start();
  }

  /// Takes engine, kernels and patterns of factors from the last solve.
  void go_on() {
    before_ = session_.engines->stats();
    session_.engines->begin_solve();
    if (steps_) steps_->begin_solve();
    if (options_.method == Method::newton) options_.linear_solver = session_.plan.linear.kind;
    start();
  }

  void start() {
    summary_.linear_solver = session_.plan.linear.kind;
    summary_.linear_solver_note = linear_text(session_.plan);
    describe_factor(session_.plan, options_, summary_);
    session_.engine().set_point(x_);
    describe_place();
  }

  void describe_place() {
    runtime::Engine& engine = session_.engine();
    summary_.plan = session_.engines->planned().abilities().plans->plan();
    summary_.backend = name(engine.backend());
    summary_.on_device = on_device();
    summary_.device = engine.device();
    summary_.accumulation = engine.abilities().plans->accumulation();
    summary_.why = session_.reason();
  }

  /// Brings the best accepted point to x_, as far as the engine still has it. Returns how many
  /// steps were accepted after it.
  int keep_best() noexcept {
    const int accepted = summary_.num_successful_steps;
    if (accepted == 0 || !session_.engines) return 0;
    if (takes_energies(options_.method)) {
      try {
        if (elsewhere_.read) elsewhere_.read();
      } catch (...) {
        return 0;  // x_ is the best point that is known
      }
      return 0;
    }
    std::vector<double> best = x_;
    int lost = 0;
    try {
      session_.engine().point(best);
    } catch (...) {
      best = x_;
      try {
        runtime::KnownPoint& known = *session_.engine().abilities().known_point;
        if (!known.last_known_point(best)) return accepted;
        lost = static_cast<int>(known.steps_after_known_point());
      } catch (...) {
        return accepted;
      }
    }
    for (std::size_t k = 0; k < x_.size(); ++k) {
      if (model_.model.constant.empty() || !model_.model.constant[k]) x_[k] = best[k];
    }
    return lost;
  }

  /// x_ = the best accepted point, where nonmonotonic steps have left it.
  void prefer_best() noexcept {
    if (!minimizer_ || minimizer_->best().empty()) return;
    for (std::size_t k = 0; k < x_.size(); ++k) {
      if (model_.model.constant.empty() || !model_.model.constant[k]) x_[k] = minimizer_->best()[k];
    }
  }

  /// Brings the best accepted point to the caller's memory.
  void save_best() noexcept {
    keep_best();
    prefer_best();
    write_back();
  }

  void write_back() noexcept {
    if (summary_.num_successful_steps == 0 || use_->ended()) return;
    problem_.write_x(x_);
  }

  void describe_problem() {
    const runtime::Model& model = model_.model;
    summary_.precision = options_.precision;
    summary_.method = outer_method_;
    summary_.step_method = options_.method;
    summary_.parameters = model.scalars;
    summary_.residuals = model.rows - (constrained() ? problem_.constraint_count() : 0);
    if (!facts_.want_host()) {
      summary_.unknowns = model.scalars;
      for (const std::uint8_t constant : model.constant) summary_.unknowns -= constant ? 1 : 0;
    }
    summary_.host_residuals = problem_.host_blocks().size();
    summary_.energies = model_.energies();
    summary_.topologies = topologies_of(model_);
    if (unread_of_ != problem_.versions().structure) unread_ = unread_blocks(model_);
    unread_of_ = problem_.versions().structure;
    summary_.unread_blocks = unread_;
    for (const UnreadBlock& block :
         std::span(unread_).first(std::min(unread_.size(), kMostUnreadNames)))
      summary_.unread_names.push_back(block_text(problem_, block));
  }

  /// As the solve left them: branches may have brought new ones.
  void describe_branches() {
    std::vector<double> x(model_.model.scalars);
    if (session_.follows_branches) session_.engine().point(x);  // after a rejected trial, too
    summary_.num_retraces = counts_.retraces;
    summary_.num_flips = counts_.flips;
    summary_.topologies = topologies_of(model_);
  }

  MakeEngine make_;                  // empty: the backends'
  SolveGroup* group_;                // null: this process alone
  Problem& caller_;                  // the caller's Problem, read where a solve begins
  Problem problem_;                  // the same, which lives as long as this
  const ProblemUse* use_ = nullptr;  // of the present solve
  bool solver_ended_ = false;
  Method outer_method_ = Method::automatic;  // constrained: options_ are of its minimisations
  bool interrupted_ = false;                 // by a signal (Interrupts), in this solve
  SolverOptions options_;                    // as settled for the present solve
  Versions versions_;                        // that model and session are of
  ProblemModel model_;
  std::vector<UnreadBlock> unread_;  // of the problem with this structure:
  std::uint64_t unread_of_ = ~std::uint64_t{0};
  BestElsewhere elsewhere_;  // of methods that take energies
  std::vector<double> x_;    // the start, later the best accepted point known to the host
  Summary summary_;
  RetraceCounts counts_;
  std::unique_ptr<Checkpoints> checkpoints_;  // null: none are written, and nothing is resumed
  std::unique_ptr<Minimizer> minimizer_;
  Session session_;
  runtime::EngineStats before_;  // of the session's engine, when the solve began
  EliminationHint hint_;         // of the options
  std::unique_ptr<StepSolver> steps_;
  ProblemFacts facts_;                // of the present solve, but for its linear system
  std::vector<double> step_seconds_;  // of one side
  double compiled_ms_ = 0;            // up to the last step
  double callback_seconds_ = 0;       // of the caller's callback after it
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
  return whole(impl, "solver").solve();
}

WarmUp Solver::warm_up() {
  const std::shared_ptr<Impl> impl = impl_;  // as in solve()
  return whole(impl, "solver").warm_up();
}

Evaluation Solver::evaluate(Numbers x, const Wanted& wanted) {
  const std::shared_ptr<Impl> impl = impl_;  // as in solve()
  return whole(impl, "solver").evaluate(x, wanted);
}

WarmUp warm_up(Problem& problem, const SolverOptions& options) {
  return Solver(problem, options).warm_up();
}

Summary solve(Problem& problem, const SolverOptions& options) {
  return Solver(problem, options).solve();
}

}  // namespace topograd
