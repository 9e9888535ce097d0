// Noting of signals.
#include <topograd/solver/interrupts.hpp>

#include <atomic>
#include <csignal>
#include <cstdlib>

namespace topograd {
namespace {

std::atomic<int> first_signal{0};
static_assert(std::atomic<int>::is_always_lock_free, "signal handlers read it");

extern "C" void note_signal(int signal) {
  constexpr int kOfSignals = 128;
  int none = 0;
  if (!first_signal.compare_exchange_strong(none, signal)) std::_Exit(kOfSignals + signal);
}

}  // namespace

Interrupts::Interrupts()
    : interrupt_(std::signal(SIGINT, note_signal)), terminate_(std::signal(SIGTERM, note_signal)) {}

Interrupts::~Interrupts() {
  std::signal(SIGINT, interrupt_);
  std::signal(SIGTERM, terminate_);
  first_signal = 0;
}

int Interrupts::signal() { return first_signal; }

std::string Interrupts::message() {
  if (!came()) return "";
  return signal() == SIGTERM ? "interrupted by SIGTERM" : "interrupted by SIGINT";
}

}  // namespace topograd
