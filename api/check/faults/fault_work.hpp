// Internal: what is done while calls fail, and what must come out.
#pragma once

#include "../../../solver/options.hpp"

#include <cstdint>
#include <span>
#include <string>

namespace topograd::check {

struct FaultAnswer {
  bool right = false;
  bool on_cpu = false;          ///< gave the answer
  std::uint64_t fallbacks = 0;  ///< that were counted meanwhile
  std::string why;              ///< unless right; else where it ran
  std::uint64_t steps = 0, steps_on_device = 0, repeated_steps = 0;  ///< of a solve
};

/// Opens the device, works, and lets go of it. Throws what the work throws.
using FaultWork = FaultAnswer (*)(Backend backend, const std::string& device, Precision precision);

struct NamedWork {
  const char* name;
  FaultWork run;
};

/// A task, in floats whatever the precision, and a solve of a few steps.
std::span<const NamedWork> fault_works();
/// A solve of more than 50 steps.
FaultAnswer long_solve(Backend backend, const std::string& device, Precision precision);

}  // namespace topograd::check
