// Noting of signals.
#include "command/interrupt.hpp"

#include <topograd/solver/summary.hpp>

#include <atomic>
#include <csignal>
#include <cstdlib>

namespace topograd::command {
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
}

int Interrupts::signal() { return first_signal; }

void Interrupts::watch(SolverOptions& options) {
  options.callback = [next = options.callback](const IterationSummary& step) {
    if (signal() != 0) return CallbackReturn::SOLVER_TERMINATE_SUCCESSFULLY;
    return next ? next(step) : CallbackReturn::SOLVER_CONTINUE;
  };
}

std::string signal_name(int signal) { return signal == SIGTERM ? "SIGTERM" : "SIGINT"; }

}  // namespace topograd::command
