// Noting of signals.
#include "interrupts.hpp"

#include "../ir/machine/platform.hpp"

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>

namespace topograd {
namespace {

std::atomic<int> first_signal{0};
std::atomic<std::int64_t> first_time{0};  // in ms
std::atomic<int> ends_at_once{0};         // objects of Interrupts::EndAtOnce
static_assert(std::atomic<int>::is_always_lock_free &&
                  std::atomic<std::int64_t>::is_always_lock_free,
              "signal handlers read them");

// timeout and job schedulers signal a process and its group, which is one request to end.
constexpr int kOfSignals = 128;
constexpr std::int64_t kOneRequestMs = 200;

extern "C" void note_signal(int signal) {
  platform::request_end(true);
  if (ends_at_once > 0) std::_Exit(kOfSignals + signal);
  const std::int64_t now = std::chrono::duration_cast<std::chrono::milliseconds>(
                               std::chrono::steady_clock::now().time_since_epoch())
                               .count();
  if (first_signal == 0) first_time = now;
  int none = 0;
  if (first_signal.compare_exchange_strong(none, signal)) return;
  if (now - first_time > kOneRequestMs) std::_Exit(kOfSignals + signal);
}

}  // namespace

Interrupts::Interrupts()
    : interrupt_(std::signal(SIGINT, note_signal)), terminate_(std::signal(SIGTERM, note_signal)) {}

Interrupts::~Interrupts() {
  std::signal(SIGINT, interrupt_);
  std::signal(SIGTERM, terminate_);
  first_signal = 0;
  platform::request_end(false);
}

Interrupts::EndAtOnce::EndAtOnce() {
  ++ends_at_once;
  if (came()) std::_Exit(kOfSignals + signal());
}
Interrupts::EndAtOnce::~EndAtOnce() { --ends_at_once; }

int Interrupts::signal() { return first_signal; }

std::string Interrupts::message() {
  if (!came()) return "";
  return signal() == SIGTERM ? "interrupted by SIGTERM" : "interrupted by SIGINT";
}

}  // namespace topograd
