// Following a problem, the engine at a point, and medians of evaluations.
#include "evaluated_problem.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "../../frontend/inspect/problem_use.hpp"

namespace topograd {

std::optional<double> EvaluationTimes::add(runtime::Pass pass, double us, double compiled_ms) {
  Kind& k = kinds_[pass];
  if (k.compiled_ms != compiled_ms) {
    k.compiled_ms = compiled_ms;
    k.us.clear();
    return std::nullopt;
  }
  k.us.push_back(us);
  if (k.us.size() < k.wanted) return std::nullopt;
  const auto middle = k.us.begin() + static_cast<std::ptrdiff_t>(k.us.size() / 2);
  std::nth_element(k.us.begin(), middle, k.us.end());
  const double median = *middle;
  k.us.clear();
  k.wanted = kMany;
  return median;
}

EvaluatedProblem::EvaluatedProblem(Problem& problem, const SolverOptions& options, Losses losses)
    : problem_(problem),
      view_(ProblemUse::view_of(problem)),
      options_(resolved(options)),
      losses_(losses),
      model_(make()),
      versions_(problem.versions()) {
  open(open_session(model_, options_));
}

ProblemModel EvaluatedProblem::make() const {
  ProblemUse::settle_long_blocks(problem_, false);
  return make_model("evaluator", problem_, losses_ == Losses::applied);
}

runtime::EngineStats EvaluatedProblem::stats() const {
  runtime::EngineStats all = session_.engines->stats();
  all += earlier_;
  return all;
}

void EvaluatedProblem::open(Session opened) {
  end_session();
  times_.clear();
  if (session_.engines) earlier_ += session_.engines->stats();
  session_ = std::move(opened);
  follow_branches(session_, "evaluator", problem_, model_, options_, counts_,
                  losses_ == Losses::applied);
  if (has_host_blocks()) session_ = on_host(std::move(session_), model_);
}

void EvaluatedProblem::end_session() {
  begun_.finish();
  if (session_.route && busy_seconds_ > 0)
    session_.route->ended(engine().backend() != runtime::Backend::cpu, busy_seconds_,
                          session_.engines->stats());
  busy_seconds_ = 0;
}

bool EvaluatedProblem::may_take_over(const Error& error) const {
  return session_.plan.backend.may_leave && is_device_failure(error.code());
}

void EvaluatedProblem::take_over(const Error& failure) {
  open(topograd::take_over(model_, options_, failure, session_));
}

void EvaluatedProblem::follow(runtime::Pass pass) {
  ProblemUse::require_present(problem_, view_, "evaluator");
  const Problem before = ProblemUse::view_of(view_);
  if (!ProblemUse::is_same(problem_, view_)) {  // another one was moved to its place
    view_ = ProblemUse::view_of(problem_);
    versions_.structure = ~problem_.versions().structure;
  }
  const bool curves = pass == runtime::Pass::hvp || pass == runtime::Pass::hessian;
  ProblemUse::settle_long_blocks(problem_, curves);
  const Versions now = problem_.versions();
  if (now == versions_) return;
  model_ = make();
  if (now.structure != versions_.structure) {
    open(open_session(model_, options_));
  } else {
    session_.engines->refresh(model_.model);
  }
  ++revision_;
  versions_ = now;
}

void EvaluatedProblem::move_to(runtime::Pass pass, std::optional<Numbers> x) {
  begun_.wait_for_pool();
  follow(pass);
  if (x) {
    check_numbers("x", x->size(), model().scalars);
  } else {
    x_.resize(model().scalars);
    problem_.read_x(x_);
  }
  // JᵀJ is assembled on the host, from Jacobians.
  session_.engines->at(pass == runtime::Pass::blocks ? runtime::Pass::jacobian : pass,
                       x ? *x : Numbers(x_));
  if (session_.follows_branches) settle();
}

bool EvaluatedProblem::hvp_on_host(std::optional<Numbers> x, std::span<const double> p,
                                   std::span<double> out) {
  if (!has_host_blocks()) return false;
  move_to(runtime::Pass::gradient, x);
  const Numbers at = x ? *x : Numbers(x_);
  return ProblemUse::hvp_of_long_blocks(problem_, at, p, losses_ == Losses::applied, out);
}

void EvaluatedProblem::require_second_derivatives(std::optional<Numbers> given) {
  const Numbers x = given ? *given : Numbers(x_);
  if (!kinks_ || kinks_revision_ != revision_) {
    const bool narrow = options_.precision == Precision::f32;
    kinks_.emplace(model_, model().constant,
                   narrow ? runtime::Precision::f32 : runtime::Precision::f64,
                   autodiff::KinksSought::lengths);
    kinks_revision_ = revision_;
    smooth_.clear();
  }
  if (std::ranges::equal(x, smooth_)) return;
  if (const std::optional<std::string> text = kinks_->describe(x))
    throw Error(ErrorCode::NonFinite, "evaluator: " + *text);
  smooth_.assign(x.begin(), x.end());
}

void EvaluatedProblem::settle() {
  const std::uint64_t before = model().revision;
  engine().cost();
  if (model().revision == before) return;
  versions_ = problem_.versions();
  ++revision_;
}

void EvaluatedProblem::teach(runtime::Pass pass, Clock::time_point begin) {
  const double us = std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
  busy_seconds_ += 1e-6 * us;
  if (options_.deterministic || engine().backend() != session_.planned_backend()) return;
  if (const auto median = times_.add(pass, us, session_.engines->stats().compile_wall_ms))
    session_.route->measured(pass, engine().backend() != runtime::Backend::cpu, *median);
}

void check_numbers(const char* what, std::size_t size, std::size_t expected) {
  if (size == expected) return;
  throw Error(ErrorCode::Shape, std::string("evaluator: ") + what + " needs " +
                                    std::to_string(expected) + " numbers, got " +
                                    std::to_string(size));
}

}  // namespace topograd
