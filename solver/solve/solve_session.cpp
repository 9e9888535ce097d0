// Opens engines, decides how steps are made, watches them, and describes problem and plan.
#include "solve_session.hpp"

#include "../../frontend/inspect/problem_use.hpp"
#include "../../ir/error.hpp"
#include "../../ir/machine/stopwatch.hpp"
#include "../../runtime/plan/requests.hpp"
#include "../host/host_step.hpp"
#include "../interrupts.hpp"
#include "../linear/factor/factorization.hpp"
#include "../linear/system_search.hpp"
#include "../plan/report.hpp"
#include "../solve_watch.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <exception>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

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

std::vector<TopologySummary> topologies_of(const ProblemModel& model) {
  std::vector<TopologySummary> out;
  for (std::size_t t = 0; t < model.model.terms.size(); ++t) {
    const runtime::Term& term = model.model.terms[t];
    out.push_back({.hash = to_string(term.topology->hash),
                   .name = term.name,
                   .instances = model.instances(t),
                   .outputs = static_cast<std::uint32_t>(term.topology->program.outputs.size())});
  }
  return out;
}

const ProblemReads& ReadsOfModel::of(const ProblemModel& model) {
  const Problem& problem = *model.problem;
  const Versions present = problem.versions();
  const bool shared = model.shares != nullptr;
  if (!shared && known_ && versions_ == present) return reads_;
  const std::uint64_t here = rows_left_out(problem);
  const std::uint64_t left_out = shared ? model.shares->sum({.low = here}).low : here;
  const bool same = known_ && versions_.structure == present.structure &&
                    versions_.constants == present.constants;
  const bool weights_matter = left_out > 0 || reads_.left_out > 0;
  versions_ = present;
  if (!shared && same && !weights_matter) return reads_;
  known_ = true;
  std::vector<std::uint8_t> read = read_scalars(problem);
  if (shared) model.shares->join(read);
  reads_ = {.unread = unread_blocks(problem, read), .left_out = left_out};
  if (left_out > 0) {
    read = scalars_with_data(problem);
    if (shared) model.shares->join(read);
  }
  reads_.unknowns = free_coordinates(problem, read);
  return reads_;
}

void describe_problem(SolveState& state, const ProblemReads& reads) {
  const Problem& problem = state.problem;
  const runtime::Model& model = state.model.model;
  Summary& summary = state.summary;
  summary.precision = state.options.precision;
  summary.method = state.outer_method;
  summary.step_method = state.options.method;
  summary.parameters = model.scalars;
  summary.residuals = model.rows - (state.constrained() ? problem.constraint_count() : 0);
  if (!state.facts.want_host()) {
    summary.unknowns = model.scalars;
    for (const std::uint8_t constant : model.constant) summary.unknowns -= constant ? 1 : 0;
  }
  summary.host_residuals = problem.host_blocks().size();
  summary.long_expressions = ProblemUse::long_expressions(problem);
  summary.shared_values = ProblemUse::shared_values(problem);
  summary.energies = state.model.energies();
  summary.topologies = topologies_of(state.model);
  summary.left_out = reads.left_out;
  summary.read_unknowns = reads.unknowns;
  summary.unread_blocks = reads.unread;
  for (std::size_t k = 0; k < std::min(reads.unread.size(), kMostUnreadNames); ++k)
    summary.unread_names.push_back(block_text(problem, reads.unread[k]));
}

void describe_factor(const Plan& plan, const SolverOptions& options, Summary& summary) {
  const LinearChoice& linear = plan.linear;
  const FactorPlace backend = linear.factor.backend;
  summary.factor = backend == FactorPlace::device && linear.by_engine
                       ? FactorPlace::device
                       : used_on_host(options.factor);
  summary.factor_note = factor_text(plan);
  if (summary.factor != FactorPlace::device) return;
  summary.factor_bytes = linear.system.device_factor->bytes;
  summary.predicted_factor_bytes = linear.system.device_factor->predicted_bytes;
}

std::string out_of_memory(const runtime::Model& model) {
  std::uint32_t widest = 0;
  for (const runtime::Term& term : model.terms)
    widest = std::max(widest, term.batch->parameter_columns());
  return "solve: out of host memory, with " + std::to_string(model.scalars) +
         " scalars and residuals that read up to " + std::to_string(widest) +
         " of them each; pcg (linear_solver) and lbfgs (method) need the least";
}

std::string text_of_current_error() {
  try {
    throw;
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "unknown error";
  }
}

namespace {

/// Microseconds of one call of a kernel, as the plan measured its pass; 0: it did not.
double planned_us(const runtime::PlanRecord& plan, const runtime::KernelTime& kernel) {
  for (const runtime::PlanChoice& made : plan.batches) {
    if (made.topology != kernel.topology ||
        runtime::identifier(made.name) + "_" + made.pass != kernel.name)
      continue;
    for (const runtime::PlanCandidate& one : made.candidates)
      if (one.accumulation == made.accumulation && one.one_pass == made.one_pass)
        return one.measured_us;
  }
  return 0;
}

}  // namespace

void describe_profile(const runtime::Profile& profile, double copy_rate, Summary& summary) {
  // Equal literals of several files make several rows.
  std::vector<runtime::KernelTime> rows;
  std::vector<std::uint32_t> first_equal;
  for (const runtime::KernelTime& one : profile.rows()) {
    const auto same = std::ranges::find_if(rows, [&](const runtime::KernelTime& other) {
      return other.name == one.name && other.topology == one.topology && other.work == one.work;
    });
    first_equal.push_back(static_cast<std::uint32_t>(same - rows.begin()));
    if (same == rows.end()) {
      rows.push_back(one);
      continue;
    }
    same->calls += one.calls;
    same->us += one.us;
    same->bytes += one.bytes;
    same->longest_us = std::max(same->longest_us, one.longest_us);
  }
  for (runtime::KernelTime& one : rows) {
    one.longest_us = std::min(one.longest_us, one.us);  // a device may have run meanwhile
    one.predicted_us = planned_us(summary.plan, one) * static_cast<double>(one.calls);
    if (one.predicted_us == 0 && copy_rate > 0)
      one.predicted_us = static_cast<double>(one.bytes) / copy_rate * 1e6;
  }
  std::vector<std::uint32_t> order(rows.size());
  std::iota(order.begin(), order.end(), 0u);
  std::ranges::stable_sort(
      order, [&](std::uint32_t a, std::uint32_t b) { return rows[a].us > rows[b].us; });
  std::vector<std::uint32_t> rank(rows.size());
  for (std::uint32_t k = 0; k < order.size(); ++k) {
    rank[order[k]] = k;
    summary.kernels.push_back(rows[order[k]]);
  }
  summary.profile = {.measured = true,
                     .step_us = profile.watched_us(),
                     .copy_rate = copy_rate,
                     .note = profile.note(),
                     .events = profile.events(),
                     .events_left_out = profile.events_left_out()};
  for (runtime::ProfileEvent& event : summary.profile.events)
    event.row = rank[first_equal[event.row]];
}

void StepWatch::begin(const ProblemUse& use) {
  use_ = &use;
  interrupted_ = false;
  step_seconds_.clear();
}

CallbackReturn StepWatch::after(const IterationSummary& iteration, const Engines& engines,
                                const Ask& ask) {
  note(iteration, engines);
  CallbackReturn answer = CallbackReturn::SOLVER_CONTINUE;
  if (ask) {
    const auto begin = std::chrono::steady_clock::now();
    answer = ask();
    callback_seconds_ = seconds_since(begin);
  }
  refuse_end();
  const SolveWatch* const watch = SolveWatch::current();
  const bool own = Interrupts::came() || (watch != nullptr && watch->should_end());
  const bool came = group_ == nullptr ? own : group_->any(own);
  if (answer != CallbackReturn::SOLVER_CONTINUE || !came) return answer;
  interrupted_ = true;
  return CallbackReturn::SOLVER_TERMINATE_SUCCESSFULLY;
}

void StepWatch::note(const IterationSummary& iteration, const Engines& engines) {
  // While kernels are made, the interpreter shares its threads with compilers.
  const double compiled = engines.stats().compile_wall_ms;
  const bool cold = compiled != compiled_ms_;
  compiled_ms_ = compiled;
  if (iteration.iteration == 0 || cold || engines.starting()) return;
  step_seconds_.push_back(iteration.iteration_time_in_seconds - callback_seconds_);
}

/// A callback, or a residual on the host, has ended what is solved, or the Solver.
void StepWatch::refuse_end() const {
  const char* const what = use_->ended() ? "problem" : solver_ended_ ? "Solver" : nullptr;
  if (what == nullptr) return;
  throw Error(ErrorCode::InvalidArgument,
              std::string("solve: the ") + what +
                  " ended inside of a callback of this solve; expected it to live until solve() "
                  "has returned");
}

}  // namespace topograd
