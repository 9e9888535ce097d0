// Ctrl-C and SIGTERM: the first ends a solve at its best point, the second ends the process.
#pragma once

#include <topograd/solver/options.hpp>

#include <string>

namespace topograd::command {

/// While it lives, the first SIGINT or SIGTERM is only noted; the second one ends the process at
/// once with status 128 + its number. Signals that the process was started to ignore are handled,
/// too: shells start background jobs so. One at a time.
class Interrupts {
 public:
  Interrupts();
  ~Interrupts();
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

  /// Number of the signal that came first; 0 if none came.
  static int signal();
  /// Lets a solve end with USER_SUCCESS after the step in which a signal comes.
  static void watch(SolverOptions& options);

 private:
  using Handler = void (*)(int);
  Handler interrupt_, terminate_;  // what they were before
};

/// "SIGINT" or "SIGTERM".
std::string signal_name(int signal);

}  // namespace topograd::command
