// Internal: the work during which calls fail, with its known answers.
#pragma once

#include "../../../solver/options.hpp"

#include <cstdint>
#include <span>
#include <string>

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

}  // namespace topograd::check
