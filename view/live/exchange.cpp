// Commands, frames and states between threads.
#include "exchange.hpp"

#include <chrono>
#include <utility>

namespace topograd::view {

bool Exchange::post(Command command) {
  bool taken = false;
  {
    const std::lock_guard lock(mutex_);
    taken = mailbox_.post(std::move(command));
  }
  wakes_.notify_all();
  return taken;
}

std::shared_ptr<const Frame> Exchange::frame() const {
  const std::lock_guard lock(mutex_);
  return frame_;
}

std::shared_ptr<const State> Exchange::state() const {
  const std::lock_guard lock(mutex_);
  return state_;
}

std::string Exchange::report() const {
  const std::lock_guard lock(mutex_);
  return report_;
}

std::shared_ptr<const Frame> Exchange::wait(std::uint64_t number, double seconds) const {
  std::unique_lock lock(mutex_);
  const bool came = arrived_.wait_for(lock, std::chrono::duration<double>(seconds),
                                      [&] { return frame_ != nullptr && frame_->number > number; });
  return came ? frame_ : nullptr;
}

void Exchange::end() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  wakes_.notify_all();
}

bool Exchange::has_commands() const {
  const std::lock_guard lock(mutex_);
  return !mailbox_.empty();
}

std::deque<Command> Exchange::take_commands() {
  const std::lock_guard lock(mutex_);
  return mailbox_.take();
}

bool Exchange::wait_for_commands() {
  std::unique_lock lock(mutex_);
  const auto come = [&] { return ends_ || !mailbox_.empty(); };
  if (come()) return false;
  wakes_.wait(lock, come);
  return true;
}

void Exchange::publish(Frame frame) {
  {
    const std::lock_guard lock(mutex_);
    frame_ = std::make_shared<const Frame>(std::move(frame));
  }
  arrived_.notify_all();
}

void Exchange::publish(State state) {
  const std::lock_guard lock(mutex_);
  state.version = state_ == nullptr ? 1 : state_->version + 1;
  state_ = std::make_shared<const State>(std::move(state));
}

void Exchange::publish(std::string report) {
  const std::lock_guard lock(mutex_);
  report_ = std::move(report);
}

}  // namespace topograd::view
