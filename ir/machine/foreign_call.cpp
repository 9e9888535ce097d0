// A counter of running calls, and a flag that ends them.
#include "foreign_call.hpp"

#include "../error.hpp"
#include "platform.hpp"

#include <atomic>
#include <chrono>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace topograd {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kLongestWaitAtEnd{60};
constexpr std::chrono::microseconds kBetweenRegistrations{20};

constinit std::atomic<int> running{0};
constinit std::atomic<bool> ended{false};
constinit std::atomic<int> loading{0};      // LoadingLibraries objects alive
constinit std::atomic<bool> copied{false};  // true in a child of fork() whose parent had made calls
thread_local int depth = 0;
thread_local bool ends_process = false;
thread_local WhenStopped* innermost = nullptr;

/// Registers the first exit handler at start-up, so that every exit() calls it. Otherwise a thread
/// with its first call during exit() would load libraries amid static destruction.
[[maybe_unused]] const bool kHasHandler = [] {
  platform::at_exit(end_foreign_calls);
  return true;
}();

bool enter() {
  if (depth > 0) {
    ++depth;
    return true;
  }
  [[maybe_unused]] static const bool kPrepared = [] {
    platform::at_exit(end_foreign_calls);
    return platform::after_fork([] { copied = true; });
  }();
  if (copied) return false;
  ++running;
  // Checked after `running` is raised: end_foreign_calls() reads `running` after it sets `ended`.
  if (ended) {
    --running;
    return false;
  }
  depth = 1;
  return true;
}

void leave() {
  if (--depth == 0) --running;
}

[[noreturn]] void stay() {
  for (;;) std::this_thread::sleep_for(std::chrono::hours(1));
}

}  // namespace

ForeignCall::ForeignCall(const char* call) {
  if (enter()) return;
  if (copied) {
    throw Error(
        ErrorCode::NoDevice,
        std::string(call) +
            ": this process is a copy made by fork() of one that had opened a driver, whose "
            "threads were not copied; use the CPU here, or fork before a device is opened");
  }
  if (ends_process) throw Error(ErrorCode::NoDevice, std::string(call) + ": the process is ending");
  for (WhenStopped* one = innermost; one != nullptr; one = one->outer_) one->tell_();
  stay();
}

ForeignCall::~ForeignCall() { leave(); }

bool run_if_callable(const std::function<void()>& destroy) {
  if (!enter()) return false;
  destroy();
  leave();
  return true;
}

void keep_for_ever(const void* object) {
  static std::mutex& mutex = *new std::mutex;
  static auto& kept = *new std::vector<const void*>;
  const std::lock_guard lock(mutex);
  kept.push_back(object);
}

LoadingLibraries::LoadingLibraries() {
  platform::remember_loaded_objects();
  ++loading;
  platform::at_exit(end_foreign_calls);
  try {
    registers_ = std::jthread([](const std::stop_token& stop) {
      while (!stop.stop_requested()) {
        platform::at_exit(end_foreign_calls);
        std::this_thread::sleep_for(kBetweenRegistrations);
      }
    });
  } catch (const std::system_error&) {
    // No thread to be had: the first and the last registration have to do.
  }
}

LoadingLibraries::~LoadingLibraries() {
  registers_ = {};
  platform::at_exit(end_foreign_calls);
  --loading;
}

void end_foreign_calls(int status) {
  if (loading > 0) platform::end_process(status);
  if (copied || ended.exchange(true)) return;
  ends_process = true;
  const int own = depth > 0 ? 1 : 0;  // exit() was called by a callback of such a library
  const Clock::time_point until = Clock::now() + kLongestWaitAtEnd;
  while (running > own && Clock::now() < until)
    std::this_thread::sleep_for(std::chrono::microseconds(200));
}

bool foreign_calls_ended() { return ended || copied; }
bool foreign_calls_lost() { return copied; }

WhenStopped::WhenStopped(std::function<void()> tell)
    : tell_(std::move(tell)), outer_(std::exchange(innermost, this)) {}
WhenStopped::~WhenStopped() { innermost = outer_; }

}  // namespace topograd
