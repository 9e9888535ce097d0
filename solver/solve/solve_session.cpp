// Reading the best point, opening engines, and the decision how steps are made on them.
#include "solve_session.hpp"

#include <chrono>
#include <utility>

#include "../../ir/error.hpp"
#include "../../ir/machine/stopwatch.hpp"
#include "../host/host_step.hpp"
#include "../linear/system_search.hpp"
#include "../plan/report.hpp"
#include "describe.hpp"

namespace topograd {
namespace {

/// The host moves blocks on manifolds by functions of the C library.
void refuse_native_moves(const Plan& plan, const Problem& problem, const SolverOptions& options) {
  const bool by_host = plan.steps == StepBackend::host || takes_energies(options.method);
  if (!by_host || !problem.has_manifolds()) return;
  throw Error(ErrorCode::Unsupported,
              "bits portable: the host moves blocks on manifolds by functions of the machine; use "
              "levenberg_marquardt with linear solver pcg");
}

}  // namespace

int BestPoint::fetch(runtime::Engine& engine, const runtime::Model& model, int accepted) noexcept {
  std::vector<double> best = x;
  int lost = 0;
  try {
    engine.point(best);
  } catch (...) {
    best = x;
    try {
      runtime::KnownPoint& known = *engine.abilities().known_point;
      if (!known.last_known_point(best)) return accepted;
      lost = static_cast<int>(known.steps_after_known_point());
    } catch (...) {
      return accepted;
    }
  }
  take(best, model);
  return lost;
}

void BestPoint::fetch_elsewhere() noexcept {
  try {
    if (elsewhere.read) elsewhere.read();
  } catch (...) {
    return;  // x is the best point that is known
  }
}

void BestPoint::take(std::span<const double> best, const runtime::Model& model) noexcept {
  for (std::size_t k = 0; k < x.size(); ++k) {
    if (model.constant.empty() || !model.constant[k]) x[k] = best[k];
  }
}

void SolveSession::close() {
  steps_ = nullptr;
  session_ = {};
}

void SolveSession::open() {
  const runtime::Model& model = state_.model.model;
  state_.facts.cpu_seconds = solve_seconds(step_work(model), threads_of(state_.options));
  try {
    open(open_session(state_.model, state_.options, state_.facts, "solve", make_));
  } catch (const Error& error) {
    // The device may fail after its engine was made: a factor or a Schur complement needs memory.
    if (!may_take_over(error)) throw;
    state_.summary.add(session_.engines->stats());
    take_over(error);
  }
}

bool SolveSession::may_take_over(const Error& error) const {
  return session_.plan.backend.may_leave && is_device_failure(error.code());
}

void SolveSession::take_over(const Error& failure) {
  open(topograd::take_over(state_.model, state_.options, failure, session_));
}

void SolveSession::open(Session session) {
  const ProblemModel& model = state_.model;
  SolverOptions& options = state_.options;
  steps_ = nullptr;  // refers to the engines
  session_ = std::move(session);
  before_ = {};
  follow_branches(session_, "solve", state_.problem, state_.model, options, state_.counts);
  state_.summary.times.device_search_seconds = session_.search_seconds;
  const auto begin = std::chrono::steady_clock::now();
  SystemSearch search(model.model, options, session_.engines->planned(), state_.hint, state_.best.x,
                      model.constraints == ConstraintTerms::penalties);
  Plan& plan = session_.plan;
  SystemFacts& system = session_.problem.system.emplace(search.facts());
  while ((plan = decide(session_.problem, options, session_.machine)).next != Fact::none)
    search.find(plan.next, system);
  if (options.bits == Bits::portable) refuse_native_moves(plan, state_.problem, options);
  if (plan.steps == StepBackend::host) session_ = on_host(std::move(session_), model);
  if (options.method == Method::newton) options.linear_solver = plan.linear.kind;
  if (plan.linear.reason == LinearReason::steps_on_host) {
    steps_ = std::make_unique<HostStep>(*session_.host, model.model, options, state_.hint);
  } else if (!takes_energies(options.method)) {
    steps_ = search.make(plan.linear);
  }
  state_.summary.times.plan_seconds += seconds_since(begin);
  start();
}

void SolveSession::go_on() {
  before_ = session_.engines->stats();
  session_.engines->begin_solve();
  if (steps_) steps_->begin_solve();
  if (state_.options.method == Method::newton)
    state_.options.linear_solver = session_.plan.linear.kind;
  start();
}

void SolveSession::start() {
  Summary& summary = state_.summary;
  summary.linear_solver = session_.plan.linear.kind;
  summary.linear_solver_note = linear_text(session_.plan);
  summary.expected_cholesky_seconds = session_.plan.linear.expected.cholesky;
  summary.expected_pcg_seconds = session_.plan.linear.expected.pcg;
  describe_factor(session_.plan, state_.options, summary);
  session_.engine().set_point(state_.best.x);
  describe_backend();
}

void SolveSession::describe_backend() {
  Summary& summary = state_.summary;
  runtime::Engine& engine = session_.engine();
  summary.plan = session_.engines->planned().abilities().plans->plan();
  const BackendChoice& choice = session_.plan.backend;
  summary.backend = choice.kernels_on_device ? "vulkan" : name(engine.backend());
  summary.on_device = on_device();
  summary.device = engine.device();
  summary.emulated_float64 = (summary.on_device || choice.kernels_on_device) &&
                             choice.emulated_float64 && state_.options.precision != Precision::f32;
  summary.accumulation = engine.abilities().plans->accumulation();
  summary.why = session_.reason();
}

void SolveSession::count_work() {
  Summary& summary = state_.summary;
  summary.add(session_.engines->stats() - before_);
  const runtime::DampedSteps& steps = *session_.engine().abilities().steps;
  const runtime::PreconditionerUse use = steps.preconditioner();
  summary.preconditioner = use.kind;
  summary.preconditioner_note = preconditioner_text(session_.plan, use);
  const runtime::NormalMatrixUse matrix = steps.normal_matrix();
  summary.normal_matrix = matrix.assembled ? NormalMatrix::assembled : NormalMatrix::matrix_free;
  summary.normal_matrix_note = text(matrix.why);
}

}  // namespace topograd
