// Self-test of failures: every driver call that can fail is made to fail while work is done.
#pragma once

#include "../../../ir/error.hpp"
#include "../../../solver/options.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace topograd::check {

struct FaultOptions {
  std::optional<Backend> backend;  ///< automatic or vulkan; otherwise both. cpu has no driver
  bool full = false;               ///< every use of each call, not the first, middle and last one
  std::string device;              ///< index or name; empty as everywhere
  double seconds = 0;              ///< after which no further batch begins; 0: all of them

  /// Throws Error{InvalidArgument} for a negative time.
  void validate() const {
    if (!(seconds >= 0))
      throw Error(ErrorCode::InvalidArgument,
                  "check faults: seconds must be >= 0, got " + std::to_string(seconds));
  }
};

/// A solve of many steps whose device is lost in the middle.
struct LostSolve {
  std::uint64_t steps = 0;  ///< accepted and rejected, on both sides together
  std::uint64_t steps_on_device = 0;
  std::uint64_t repeated_steps = 0;  ///< as its Summary says
  bool right = false;                ///< it ended in the minimum, on the CPU
};

/// The note of a report for Backend::cpu.
inline constexpr const char* kNoDriver =
    "backend cpu calls no driver: there was nothing to make fail";

struct FaultReport {
  std::string device;
  Precision precision = Precision::f64;  ///< of the solves: f32 where the device has no other
  std::string note;                      ///< why nothing was to be injected; otherwise empty
  std::uint64_t planned = 0;
  std::uint64_t injections = 0;     ///< that were reached
  std::uint64_t right_answers = 0;  ///< of them
  std::uint64_t typed_errors = 0;   ///< of them: under `vulkan`, of a code that failures have
  std::uint64_t wrong = 0;          ///< other answers and errors, and work that was never done
  std::uint64_t crashed = 0;        ///< processes that did not end by themselves
  std::uint64_t leaked = 0;         ///< injections after which objects of the driver were left
  std::uint64_t miscounted = 0;     ///< the fallback counter moved otherwise than by one a fallback
  std::uint64_t not_reached = 0;    ///< the call was not made so often this time
  std::uint64_t fallbacks = 0;      ///< that were counted
  std::map<std::string, std::uint64_t> calls;  ///< injections by entry point
  std::vector<LostSolve> lost;                 ///< under `automatic`
  std::vector<std::string> failures;           ///< what broke, of the first of them

  /// Nothing was injected although there is a driver, or anything of it was not as it must be.
  bool broken() const;
};

/// Runs a task of the hybrid executor (through the staging ring) and a solve, each with a known
/// answer, from opening the device to letting go of it, once for each injection: a call, one of its
/// uses, one of the results that the specification lists for it, once or from there on. Injections
/// run in child processes, with caches in a folder of their own.
///
/// Under `automatic` each one ends in the right answer, and where the CPU gives it, the fallback
/// counter has moved by one; under `vulkan` it ends in the right answer or a typed error. Nothing
/// crashes or hangs, and no object of the driver is left.
///
/// Backend::cpu opens nothing: no injection, and a note that says so.
///
/// Throws Error{NoDevice, Unsupported, ...} if there is nothing to inject into, and
/// Error{Unsupported} from a process that has used Vulkan.
FaultReport check_faults(const FaultOptions& options = {});

}  // namespace topograd::check
