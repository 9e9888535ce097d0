// Internal: the child processes of the check of failures, and the lines they print.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "../../../runtime/device/driver/faults.hpp"
#include "../../../solver/options.hpp"

namespace topograd::check {

struct FaultAnswer {
  bool right = false;
  bool on_cpu = false;          ///< true if the CPU computed the answer
  std::uint64_t fallbacks = 0;  ///< fallbacks counted during the work
  std::string why;              ///< reason if not right; otherwise the place of the work
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

}  // namespace topograd::check
