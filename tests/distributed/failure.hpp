// Failures of a rank that tests ask for.
#pragma once

#include "../../distributed/communicator.hpp"
#include "../../solver/options.hpp"

#include <cstdint>
#include <string>

namespace topograd::test {

/// Lets one rank fail during a solve, at a time between two steps or inside of one.
///
///   text  "KIND:RANK:STEP:SHARE:CLOCK": RANK fails SHARE of a step's time after its step STEP. It
///         writes the time of the failure, in seconds of the system's clock, to the file CLOCK.
///
/// Kinds: "kill" (SIGKILL), "exit" (leaves the process), "throw" (the next callback throws),
/// "memory" (it throws std::bad_alloc), "lost" (it throws Error{DeviceLost}), "residual" (the next
/// evaluation of the residual on the host throws: cases.hpp). The solve goes on after
/// "device_lost" and "device_memory": of the rank's submissions to its device after STEP, number
/// SHARE, counted from 0, fails. RANK −1 means all ranks.
void inject_failure(const std::string& text, const distributed::Communicator& ranks,
                    SolverOptions& options);

/// A submission to a rank's device that fails.
class FailingSubmission {
 public:
  /// "KIND:RANK:NUMBER", with the kinds of devices above; none on other ranks, or if the text is
  /// empty. Before the device is opened.
  static FailingSubmission parse(const std::string& text, const distributed::Communicator& ranks);
  /// Counts submissions from now on.
  void begin() const;
  /// Returns how many calls have failed since begin().
  double end() const;

 private:
  bool here_ = false, lost_ = false;
  std::uint64_t number_ = 0;
};

}  // namespace topograd::test
