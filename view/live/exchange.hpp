// Commands, frames and states on their way between a live solver's thread and all others.
#pragma once

#include "frame.hpp"
#include "live_solver.hpp"
#include "mailbox.hpp"

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>

namespace topograd::view {

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
