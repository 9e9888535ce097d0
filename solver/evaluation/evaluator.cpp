// Evaluator: residuals and derivatives at any point, also begun and not waited for.
#include "../evaluator.hpp"

#include "../../autodiff/derivatives.hpp"
#include "../../ir/error.hpp"
#include "../../ir/machine/parallel.hpp"
#include "../../runtime/engine/engine.hpp"
#include "../../runtime/plan/passes.hpp"
#include "../session/session.hpp"
#include "evaluated_problem.hpp"
#include "model_vectors.hpp"

#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

namespace topograd {

/// Begins evaluations on the problem's engine, or on the pool where the engine cannot.
class EvaluationQueue {
 public:
  /// The problem outlives what was begun, and ends its session before this ends.
  explicit EvaluationQueue(EvaluatedProblem& problem)
      : problem_(problem), vectors_(problem.model()) {}

  ///   p  the direction of a product; else any numbers
  std::shared_ptr<AsyncState> begin(runtime::Pass pass, Numbers x, Numbers p);
  const AsyncFigures& figures() const { return *figures_; }

 private:
  void start(const std::shared_ptr<AsyncState>& state);
  void complete(AsyncState& state);

  EvaluatedProblem& problem_;
  ModelVectors vectors_;
  std::shared_ptr<AsyncFigures> figures_ = std::make_shared<AsyncFigures>();
};

namespace {

double seconds(AsyncState::Clock::duration d) { return std::chrono::duration<double>(d).count(); }

// Never destroyed: threads of the pool may look at it until the process is gone.
ir::Arena& arena() {
  static ir::Arena& made = *new ir::Arena;
  return made;
}

void check_there(const AsyncState* state, const char* call) {
  if (state) return;
  throw Error(ErrorCode::InvalidArgument,
              std::string(call) + ": the result was taken before, or moved to another handle");
}

}  // namespace

std::future<void> run_on_pool(std::function<void()> task) {
  const auto promise = std::make_shared<std::promise<void>>();
  arena().enqueue([promise, task = std::move(task)] {
    try {
      task();
      promise->set_value();
    } catch (...) {
      promise->set_exception(std::current_exception());
    }
  });
  return promise->get_future();
}

bool AsyncState::ready() const {
  if (finished) return true;
  if (running.valid())
    return running.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  return begun->ready();
}

void AsyncState::finish() {
  if (finished) return;
  const Clock::time_point asked = Clock::now();
  try {
    if (running.valid()) {
      running.get();
    } else if (begun) {
      begun->finish();
    }
  } catch (...) {
    error = std::current_exception();
  }
  begun = nullptr;
  engine = nullptr;
  const Clock::time_point now = Clock::now();
  ++figures->evaluations;
  figures->in_flight_seconds += seconds(now - since);
  figures->waited_seconds += seconds(now - asked);
  finished = true;
  try {
    complete(*this);
  } catch (...) {
    error = std::current_exception();
  }
  complete = nullptr;
}

template <class T>
Async<T>::Async(std::shared_ptr<AsyncState> state) : state_(std::move(state)) {}
template <class T>
Async<T>::Async(Async&&) noexcept = default;
template <class T>
Async<T>& Async<T>::operator=(Async&&) noexcept = default;
template <class T>
Async<T>::~Async() = default;

template <class T>
bool Async<T>::ready() const {
  check_there(state_.get(), "ready");
  return state_->ready();
}

template <class T>
T Async<T>::get() {
  check_there(state_.get(), "get");
  const std::shared_ptr<AsyncState> state = std::move(state_);
  state->finish();
  if (state->error) std::rethrow_exception(state->error);
  if constexpr (std::is_same_v<T, double>) {
    return state->out[0];
  } else {
    return std::move(state->out);
  }
}

template class Async<double>;
template class Async<Eigen::VectorXd>;

std::shared_ptr<AsyncState> EvaluationQueue::begin(runtime::Pass pass, Numbers x, Numbers p) {
  problem_.begun().wait_for_pool();
  problem_.follow(pass);
  const std::uint64_t scalars = problem_.model().scalars;
  check_numbers("x", x.size(), scalars);
  const bool directed =
      pass == runtime::Pass::jvp || pass == runtime::Pass::jtjp || pass == runtime::Pass::hvp;
  if (directed) check_numbers("p", p.size(), scalars);
  auto state = std::make_shared<AsyncState>();
  state->pass = pass;
  state->x.assign(x.begin(), x.end());
  const std::span<const double> free = directed ? vectors_.free_part(p) : std::span<const double>();
  state->p.assign(free.begin(), free.end());
  const bool rows_out = pass == runtime::Pass::residual || pass == runtime::Pass::jvp;
  state->out = pass == runtime::Pass::cost ? Eigen::VectorXd(1)
               : rows_out                  ? vectors_.rows()
                                           : vectors_.scalars();
  state->figures = figures_;
  state->complete = [this](AsyncState& done) { complete(done); };
  start(state);
  problem_.begun().add(state);
  return state;
}

void EvaluationQueue::start(const std::shared_ptr<AsyncState>& state) {
  state->since = AsyncState::Clock::now();
  const Session& session = problem_.session();
  const bool here = session.follows_branches || problem_.has_host_blocks();
  try {
    runtime::Engine& engine = session.engines->for_evaluation(state->pass);
    if (here || engine.abilities().asynchronous != nullptr) {
      state->engine = session.engines->hold();
      state->begun = runtime::begin(engine, state->pass, state->x, state->p, span_of(state->out));
      return;
    }
  } catch (...) {
    state->error = std::current_exception();
    return;
  }
  state->running = run_on_pool([state, &on = problem_.engine()] {
    runtime::begin(on, state->pass, state->x, state->p, span_of(state->out))->finish();
  });
  problem_.begun().add_on_pool(state);
}

/// Results as the synchronous calls give them; evaluates again on the CPU where a device failed
/// that `automatic` had chosen.
void EvaluationQueue::complete(AsyncState& state) {
  if (state.error) {
    try {
      std::rethrow_exception(state.error);
    } catch (const Error& error) {
      if (!problem_.may_take_over(error)) throw;
      state.error = nullptr;
      if (problem_.engine().backend() != runtime::Backend::cpu) problem_.take_over(error);
      runtime::begin(problem_.engine(), state.pass, state.x, state.p, span_of(state.out))->finish();
    }
  }
  if (state.pass == runtime::Pass::hvp) problem_.require_second_derivatives(state.x);
  const bool by_scalar = state.pass == runtime::Pass::gradient ||
                         state.pass == runtime::Pass::jtjp || state.pass == runtime::Pass::hvp;
  if (by_scalar) state.out = vectors_.masked(std::move(state.out));
}

namespace {

using Vector = Eigen::VectorXd;

KernelInfo describe(const runtime::Term& term, const std::string& backend) {
  const ir::Program& program = term.topology->program;
  const std::vector<std::uint32_t> slots = autodiff::all_slots(program);
  const auto operations = [&](runtime::Pass pass) {
    if (pass == runtime::Pass::residual && term.loss == nullptr)
      return ir::operation_count(program);
    return ir::operation_count(runtime::pass_program(pass, program, slots, term.energy, term.loss));
  };
  return {.topology = to_string(term.topology->hash),
          .name = term.name,
          .instances = term.batch->size(),
          .outputs = static_cast<std::uint32_t>(program.outputs.size()),
          .parameters = term.batch->parameter_columns(),
          .residual_operations = operations(runtime::Pass::residual),
          .gradient_operations = operations(runtime::Pass::gradient),
          .jacobian_operations = operations(runtime::Pass::jacobian),
          .energy = term.energy,
          .bytes_per_instance = term.batch->index_columns() * 4 + term.batch->data_columns() * 8,
          .backend = backend};
}

}  // namespace

struct Evaluator::Impl {
  Impl(Problem& caller, const SolverOptions& options, Losses losses)
      : problem(caller, options, losses),
        vectors(problem.model()),
        queue(problem),
        matrices(problem) {}
  ~Impl() { problem.end_session(); }
  static Impl& of(const std::unique_ptr<Impl>& impl) {
    return require_not_moved_from(impl, "evaluator");
  }

  double cost(std::optional<Numbers> x) {
    return problem.at(runtime::Pass::cost, x, [](runtime::Engine& e) { return e.cost(); });
  }
  Vector residuals(std::optional<Numbers> x) {
    return problem.at(runtime::Pass::residual, x, [&](runtime::Engine& e) {
      Vector out = vectors.rows();
      e.residuals(span_of(out));
      return out;
    });
  }
  Vector gradient(std::optional<Numbers> x) {
    return problem.at(runtime::Pass::gradient, x, [&](runtime::Engine& e) {
      Vector out = vectors.scalars();
      e.gradient(span_of(out));
      return vectors.masked(std::move(out));
    });
  }
  Evaluation evaluate(std::optional<Numbers> x, const Wanted& wanted) {
    const runtime::Pass pass =
        runtime::pass_of_values(wanted.cost, wanted.residuals, wanted.gradient);
    return problem.at(pass, x,
                      [&](runtime::Engine& e) { return values_of(e, problem.model(), wanted); });
  }
  Vector jvp(std::optional<Numbers> x, Numbers p) {
    return problem.at(runtime::Pass::jvp, x, [&](runtime::Engine& e) {
      check_numbers("p", p.size(), problem.model().scalars);
      Vector out = vectors.rows();
      e.jvp(vectors.free_part(p), span_of(out));
      return out;
    });
  }
  Vector vjp(std::optional<Numbers> x, Numbers seeds) {
    return problem.at(runtime::Pass::vjp, x, [&](runtime::Engine& e) {
      check_numbers("seeds", seeds.size(), problem.model().rows);
      Vector out = vectors.scalars();
      e.vjp(seeds, span_of(out));
      return vectors.masked(std::move(out));
    });
  }
  Vector jtjp(std::optional<Numbers> x, Numbers p) {
    return problem.at(runtime::Pass::jtjp, x, [&](runtime::Engine& e) {
      check_numbers("p", p.size(), problem.model().scalars);
      Vector out = vectors.scalars();
      e.jtjp(vectors.free_part(p), span_of(out));
      return vectors.masked(std::move(out));
    });
  }
  Vector hvp(std::optional<Numbers> x, Numbers p) {
    check_numbers("p", p.size(), problem.model().scalars);
    Vector on_host = vectors.scalars();
    if (problem.hvp_on_host(x, vectors.free_part(p), span_of(on_host)))
      return vectors.masked(std::move(on_host));
    Vector product = problem.at(runtime::Pass::hvp, x, [&](runtime::Engine& e) {
      check_numbers("p", p.size(), problem.model().scalars);
      Vector out = vectors.scalars();
      runtime::second_derivatives(e).hvp(vectors.free_part(p), span_of(out));
      return vectors.masked(std::move(out));
    });
    problem.require_second_derivatives(x);
    return product;
  }

  SparseMatrix jacobian(std::optional<Numbers> x) {
    return problem.at(runtime::Pass::jacobian, x,
                      [&](runtime::Engine& e) { return sparse_jacobian(e, problem); });
  }
  SparseMatrix jtj(std::optional<Numbers> x) {
    if (problem.has_host_blocks()) {
      const SparseMatrix J = jacobian(x);
      return SparseMatrix(J.transpose()) * J;
    }
    problem.at(runtime::Pass::blocks, x, [&](runtime::Engine& e) {
      matrices.refresh_jtj(e);
      return true;
    });
    return matrices.jtj();
  }
  SparseMatrix hessian(std::optional<Numbers> x, const HessianOptions& asked) {
    problem.at(runtime::Pass::hessian, x, [&](runtime::Engine& e) {
      matrices.refresh_hessian(e, asked.project_psd);
      return true;
    });
    if (!asked.project_psd) problem.require_second_derivatives(x);
    return matrices.hessian();
  }

  EvaluatedProblem problem;
  ModelVectors vectors;
  EvaluationQueue queue;
  SquareMatrices matrices;
  std::string reason;  // as last asked for
};

Evaluator::Evaluator(Problem& problem, const SolverOptions& options, Losses losses)
    : impl_(std::make_unique<Impl>(problem, options, losses)) {}
Evaluator::~Evaluator() = default;
Evaluator::Evaluator(Evaluator&&) noexcept = default;
Evaluator& Evaluator::operator=(Evaluator&&) noexcept = default;

double Evaluator::cost() { return Impl::of(impl_).cost({}); }
double Evaluator::cost(Numbers x) { return Impl::of(impl_).cost(x); }
Vector Evaluator::residuals() { return Impl::of(impl_).residuals({}); }
Vector Evaluator::residuals(Numbers x) { return Impl::of(impl_).residuals(x); }
Vector Evaluator::gradient() { return Impl::of(impl_).gradient({}); }
Vector Evaluator::gradient(Numbers x) { return Impl::of(impl_).gradient(x); }
Evaluation Evaluator::evaluate(const Wanted& w) { return Impl::of(impl_).evaluate({}, w); }
Evaluation Evaluator::evaluate(Numbers x, const Wanted& wanted) {
  return Impl::of(impl_).evaluate(x, wanted);
}
Evaluator::SparseMatrix Evaluator::jacobian() { return Impl::of(impl_).jacobian({}); }
Evaluator::SparseMatrix Evaluator::jacobian(Numbers x) { return Impl::of(impl_).jacobian(x); }
Evaluator::SparseMatrix Evaluator::jtj() { return Impl::of(impl_).jtj({}); }
Evaluator::SparseMatrix Evaluator::jtj(Numbers x) { return Impl::of(impl_).jtj(x); }
Evaluator::SparseMatrix Evaluator::hessian(const HessianOptions& options) {
  return Impl::of(impl_).hessian({}, options);
}
Evaluator::SparseMatrix Evaluator::hessian(Numbers x, const HessianOptions& options) {
  return Impl::of(impl_).hessian(x, options);
}
Vector Evaluator::hvp(Numbers p) { return Impl::of(impl_).hvp({}, p); }
Vector Evaluator::hvp(Numbers x, Numbers p) { return Impl::of(impl_).hvp(x, p); }
Vector Evaluator::jvp(Numbers p) { return Impl::of(impl_).jvp({}, p); }
Vector Evaluator::jvp(Numbers x, Numbers p) { return Impl::of(impl_).jvp(x, p); }
Vector Evaluator::vjp(Numbers seeds) { return Impl::of(impl_).vjp({}, seeds); }
Vector Evaluator::vjp(Numbers x, Numbers seeds) { return Impl::of(impl_).vjp(x, seeds); }
Vector Evaluator::jtjp(Numbers p) { return Impl::of(impl_).jtjp({}, p); }
Vector Evaluator::jtjp(Numbers x, Numbers p) { return Impl::of(impl_).jtjp(x, p); }

Async<double> Evaluator::cost_async(Numbers x) {
  return Async<double>(Impl::of(impl_).queue.begin(runtime::Pass::cost, x, x));
}
Async<Vector> Evaluator::residuals_async(Numbers x) {
  return Async<Vector>(Impl::of(impl_).queue.begin(runtime::Pass::residual, x, x));
}
Async<Vector> Evaluator::gradient_async(Numbers x) {
  return Async<Vector>(Impl::of(impl_).queue.begin(runtime::Pass::gradient, x, x));
}
Async<Vector> Evaluator::jvp_async(Numbers x, Numbers p) {
  return Async<Vector>(Impl::of(impl_).queue.begin(runtime::Pass::jvp, x, p));
}
Async<Vector> Evaluator::jtjp_async(Numbers x, Numbers p) {
  return Async<Vector>(Impl::of(impl_).queue.begin(runtime::Pass::jtjp, x, p));
}
Async<Vector> Evaluator::hvp_async(Numbers x, Numbers p) {
  return Async<Vector>(Impl::of(impl_).queue.begin(runtime::Pass::hvp, x, p));
}

EvaluatorReport Evaluator::report() const {
  const Impl& impl = Impl::of(impl_);
  const runtime::EngineStats stats = impl.problem.stats();
  EvaluatorReport report;
  static_cast<runtime::EngineCounts&>(report) = stats;
  static_cast<runtime::MakingTimes&>(report) = stats;
  report.backend = backend();
  report.device = device();
  report.why = why();
  report.asynchronous = impl.queue.figures();
  report.plan = impl.problem.session().engines->planned().abilities().plans->plan();
  return report;
}

std::vector<KernelInfo> Evaluator::kernels() const {
  std::vector<KernelInfo> out;
  for (const runtime::Term& term : Impl::of(impl_).problem.model().terms)
    out.push_back(describe(term, backend()));
  return out;
}
std::string Evaluator::backend() const {
  return std::string(name(Impl::of(impl_).problem.engine().backend()));
}
std::string Evaluator::device() const { return Impl::of(impl_).problem.engine().device(); }
const std::string& Evaluator::why() const {
  Impl& impl = Impl::of(impl_);
  return impl.reason = impl.problem.session().reason();
}

}  // namespace topograd
