// Results of evaluations that were begun and not waited for.
#include "asynchronous_state.hpp"

#include "../../ir/error.hpp"
#include "../../ir/machine/parallel.hpp"

#include <string>
#include <type_traits>
#include <utility>

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

}  // namespace topograd
