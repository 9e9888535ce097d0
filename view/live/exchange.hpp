// Commands, frames and states on their way between a live solver's thread and all others.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <variant>

#include "frame.hpp"
#include "live_solver.hpp"

namespace topograd::view {

/// Commands that wait: drags by handle, the others in order.
class Mailbox {
 public:
  static constexpr std::size_t kMostCommands = LiveSolver::kMostCommands;

  bool post(Command command) {
    if (auto* drag = std::get_if<Drag>(&command)) {
      // A drag of a handle that another command in the queue precedes keeps its position.
      for (auto waiting = queue_.rbegin(); waiting != queue_.rend(); ++waiting) {
        auto* older = std::get_if<Drag>(&*waiting);
        if (older == nullptr) break;
        if (older->handle != drag->handle) continue;
        drag->begins = drag->begins || older->begins;
        *older = *drag;
        return true;
      }
    }
    if (queue_.size() >= kMostCommands) return false;
    queue_.push_back(std::move(command));
    return true;
  }
  bool empty() const { return queue_.empty(); }
  std::deque<Command> take() { return std::exchange(queue_, {}); }

 private:
  std::deque<Command> queue_;
};

/// Frames and steps of the last second.
class Rate {
 public:
  void add(int steps) {
    const auto now = std::chrono::steady_clock::now();
    recent_.push_back({now, steps});
    while (now - recent_.front().first > std::chrono::seconds(1) && recent_.size() > 2)
      recent_.pop_front();
  }
  /// Solves and steps for each second, from the first recent solve to the last.
  std::pair<double, double> per_second() const {
    if (recent_.size() < 2) return {0, 0};
    const double seconds =
        std::chrono::duration<double>(recent_.back().first - recent_.front().first).count();
    double steps = 0;
    for (std::size_t k = 1; k < recent_.size(); ++k) steps += recent_[k].second;
    return seconds > 0
               ? std::pair(static_cast<double>(recent_.size() - 1) / seconds, steps / seconds)
               : std::pair(0.0, 0.0);
  }
  void clear() { recent_.clear(); }

 private:
  std::deque<std::pair<std::chrono::steady_clock::time_point, int>> recent_;
};

/// Commands for the live solver; frames, states and reports from it. Thread-safe.
class Exchange {
 public:
  // For any thread: as in LiveSolver.

  bool post(Command command);
  std::shared_ptr<const Frame> frame() const;
  std::shared_ptr<const State> state() const;
  std::string report() const;
  std::shared_ptr<const Frame> wait(std::uint64_t number, double seconds) const;
  /// Asks the live solver's thread to end.
  void end();

  // For the live solver's thread.

  const std::atomic<bool>& ends() const { return ends_; }
  bool has_commands() const;
  std::deque<Command> take_commands();
  /// Waits until commands or the end come. Returns false if they were there already.
  bool wait_for_commands();
  void publish(Frame frame);
  /// Sets the version.
  void publish(State state);
  void publish(std::string report);

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable wakes_, arrived_;
  std::atomic<bool> ends_ = false;  // written under the mutex
  Mailbox mailbox_;
  std::shared_ptr<const Frame> frame_;
  std::shared_ptr<const State> state_;
  std::string report_;
};

}  // namespace topograd::view
