// Internal: what child processes of the check of failures do, and how they say it.
#pragma once

#include "../../../runtime/device/driver/faults.hpp"
#include "fault_work.hpp"

#include <cstddef>
#include <functional>
#include <span>
#include <string>

namespace topograd::check {

using Tell = std::function<void(const std::string&)>;

/// First words of the lines that a child prints.
inline constexpr const char *kBegin = "begin", *kEnd = "end", *kUses = "uses", *kDevice = "device",
                            *kError = "error", *kLost = "lost";

/// How one injection went.
enum class Outcome { right, typed, wrong, not_reached };

struct Scenario {
  const NamedWork* work = nullptr;
  Backend backend = Backend::automatic;
  Precision precision = Precision::f64;  ///< f32 where the device has no other

  std::string name() const {
    return std::string(work->name) + " under " + std::string(topograd::name(backend));
  }
};

struct Injection {
  Scenario scenario;
  runtime::vulkan::Fault fault;

  std::string name() const;
};

/// Sets the environment of a child: caches in `cache`, software devices admitted.
void prepare_fault_child(const std::string& cache);

/// Says the precision that the device has and its name, and each scenario's uses of every call, or
/// the error that stands in the way.
void explore_uses(std::span<const Scenario> scenarios, const std::string& device, const Tell& tell);

/// Says when each injection begins and how it ended; `first` is the number of the first. Ends after
/// one that leaks: what is left would count again.
void run_injections(std::span<const Injection> injections, std::size_t first,
                    const std::string& device, const Tell& tell);

/// Says how a long solve under `automatic` ended whose device was lost in its middle.
///
///   persistent  the driver reports the loss from there on
void lose_device(const std::string& device, Precision precision, bool persistent, const Tell& tell);

}  // namespace topograd::check
