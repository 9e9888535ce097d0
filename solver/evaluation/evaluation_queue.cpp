// Evaluations that were begun and not waited for, and what is done with their results.
#include "evaluation_queue.hpp"

#include <exception>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

#include "../../ir/error.hpp"
#include "../../ir/machine/parallel.hpp"
#include "evaluated_problem.hpp"

namespace topograd {
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

}  // namespace topograd
