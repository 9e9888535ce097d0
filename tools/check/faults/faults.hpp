// Self-test of failures: makes every driver call that can fail do so, in child processes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "../../../ir/error.hpp"
#include "../../../runtime/device/driver/faults.hpp"
#include "../../../solver/options.hpp"

namespace topograd::check {

/// The result of work in a child process in which a call failed.
struct FaultAnswer {
  bool right = false;
  bool on_cpu = false;          ///< true if the CPU computed the answer
  std::uint64_t fallbacks = 0;  ///< fallbacks counted during the work
  std::string why;              ///< reason if not right; otherwise the backend of the work
  std::uint64_t steps = 0, steps_on_device = 0, repeated_steps = 0;  ///< of a solve
};

/// Opens the device, works, and releases the device. Throws what the work throws.
using FaultWork = FaultAnswer (*)(Backend backend, const std::string& device, Precision precision);

struct NamedWork {
  const char* name;
  FaultWork run;
  /// Only allocations of device memory fail, from each one on.
  bool only_memory = false;
};

/// A task, in floats for any precision, and a solve of a few steps; then solves by each linear
/// solver and method, of which the device's memory fails.
std::span<const NamedWork> fault_works();
/// A solve of more than 50 steps.
FaultAnswer long_solve(Backend backend, const std::string& device, Precision precision);

using Tell = std::function<void(const std::string&)>;

/// First words of the lines that a child process prints.
inline constexpr const char *kBegin = "begin", *kEnd = "end", *kUses = "uses", *kDevice = "device",
                            *kError = "error", *kLost = "lost";

/// Result of one injection.
enum class Outcome { right, typed, wrong, not_reached };

struct Scenario {
  const NamedWork* work = nullptr;
  Backend backend = Backend::automatic;
  Precision precision = Precision::f64;  ///< f32 if the device has no other

  std::string name() const {
    return std::string(work->name) + " under " + std::string(topograd::name(backend));
  }
};

struct Injection {
  Scenario scenario;
  runtime::vulkan::Fault fault;

  std::string name() const;
};

/// Sets the environment of a child: caches in `cache`, software devices allowed.
void prepare_fault_child(const std::string& cache);

/// Reports the device's precision and name and each scenario's number of uses of every call, or the
/// error that prevents it.
void explore_uses(std::span<const Scenario> scenarios, const std::string& device, const Tell& tell);

/// Reports the begin and the result of each injection; `first` is the number of the first. Stops
/// after an injection that leaks, because the leaked objects would be counted again.
void run_injections(std::span<const Injection> injections, std::size_t first,
                    const std::string& device, const Tell& tell);

/// Reports the result of a long solve under `automatic` whose device is lost in the middle.
///
///   persistent  the driver reports the loss from then on
void lose_device(const std::string& device, Precision precision, bool persistent, const Tell& tell);

struct FaultOptions {
  std::optional<Backend> backend;  ///< automatic or vulkan; empty: both. cpu has no driver
  bool full = false;   ///< all uses of each call, instead of the first, middle and last one
  std::string device;  ///< index or name; may be empty
  double seconds = 0;  ///< no batch begins after this time; 0: no limit

  /// Throws Error{InvalidArgument} for a negative time.
  void validate() const {
    if (!(seconds >= 0))
      throw Error(ErrorCode::InvalidArgument,
                  "check faults: seconds must be >= 0, got " + std::to_string(seconds));
  }
};

/// A solve of many steps that loses its device in the middle.
struct LostSolve {
  std::uint64_t steps = 0;  ///< accepted and rejected, on both backends together
  std::uint64_t steps_on_device = 0;
  std::uint64_t repeated_steps = 0;  ///< as in its Summary
  bool right = false;                ///< true if it ended at the minimum, on the CPU
};

/// The report's note for Backend::cpu.
inline constexpr const char* kNoDriver =
    "backend cpu calls no driver: there was nothing to make fail";

struct FaultReport {
  std::string device;
  Precision precision = Precision::f64;  ///< of the solves: f32 if the device has no other
  std::string note;                      ///< reason if nothing was injected; otherwise empty
  std::uint64_t planned = 0;
  std::uint64_t injections = 0;     ///< number of injections that were reached
  std::uint64_t right_answers = 0;  ///< injections with the right answer
  /// Injections with an error, under `vulkan`, whose code fits failures.
  std::uint64_t typed_errors = 0;
  std::uint64_t wrong = 0;        ///< other answers and errors, and work that was never done
  std::uint64_t crashed = 0;      ///< processes that ended abnormally
  std::uint64_t leaked = 0;       ///< injections that left driver objects behind
  std::uint64_t miscounted = 0;   ///< injections after which the fallback counter was wrong
  std::uint64_t not_reached = 0;  ///< injections whose call was made less often this time
  std::uint64_t fallbacks = 0;    ///< counted fallbacks
  std::map<std::string, std::uint64_t> calls;  ///< injections by entry point
  std::vector<LostSolve> lost;                 ///< under `automatic`
  std::vector<std::string> failures;           ///< descriptions of the first failures

  /// True if nothing was injected although there is a driver, or if any count shows a failure.
  bool broken() const;
};

/// Runs a task of the hybrid executor (through the staging ring) and a solve, each with a known
/// answer, from opening to releasing the device, once for each injection. An injection is a call,
/// one of its uses, and one of the results that the specification lists for it, either once or from
/// then on. Further solves, by each linear solver and method, find no memory on the device from
/// each of their allocations on. Injections run in child processes, with caches in a temporary
/// folder.
///
/// Under `automatic` each injection must end with the right answer, and the fallback counter must
/// have increased by one if the CPU computed it. Under `vulkan` each must end with the right answer
/// or a typed error. No injection may crash, hang, or leave driver objects behind.
///
/// Backend::cpu opens no device: the report has no injections and a note that says so.
///
/// Throws Error{NoDevice, Unsupported, ...} if there is nothing to inject into, and
/// Error{Unsupported} in a process that has used Vulkan.
FaultReport check_faults(const FaultOptions& options = {});

}  // namespace topograd::check
