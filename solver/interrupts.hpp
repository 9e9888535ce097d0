// Ctrl-C and SIGTERM: the first ends solves at their best points, a second one ends the process.
#pragma once

#include <string>

namespace topograd {

/// While it lives, the first SIGINT or SIGTERM ends each solve of the process after its step, with
/// Termination::USER_SUCCESS and the message "interrupted by SIGINT"; later solves end after their
/// start. A second signal, 0.2 s later or more, ends the process at once with status 128 + its
/// number.
///
/// It also handles signals that the process was started to ignore, because shells start background
/// jobs that way. Only one may exist; its end restores the earlier handlers.
///
///   int main() {
///     const topograd::Interrupts interrupts;
class Interrupts {
 public:
  Interrupts();
  ~Interrupts();
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

  /// While one lives, the first signal ends the process at once, as a second one does: for work
  /// that may block and has nothing to save, such as reading of inputs.
  class EndAtOnce {
   public:
    EndAtOnce();
    ~EndAtOnce();
    EndAtOnce(const EndAtOnce&) = delete;
    EndAtOnce& operator=(const EndAtOnce&) = delete;
  };

  /// Number of the first signal in its life; 0 if none came or no object lives. Thread-safe.
  static int signal();
  /// Condition for loops that should end on a signal.
  static bool came() { return signal() != 0; }
  /// "interrupted by SIGINT" or "interrupted by SIGTERM"; empty if no signal came.
  static std::string message();

 private:
  using Handler = void (*)(int);
  Handler interrupt_, terminate_;  // the earlier handlers
};

}  // namespace topograd
