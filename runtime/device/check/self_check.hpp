// Whether a device computes what shaders say: a few functions of functions, run once for each
// device, driver and version of the generated functions.
#pragma once

#include "../../rows/compositions.hpp"
#include "../device.hpp"

#include <string>
#include <vector>

namespace topograd::runtime::vulkan {

struct SelfCheck {
  std::uint64_t compared = 0;  ///< numbers; 0 where the result was remembered
  std::string problem;         ///< the first number that is wrong, one line; empty if none

  bool passed() const { return problem.empty(); }
};

/// What the self-check runs, in each precision that the device has.
const std::vector<Composition>& self_check_compositions();

/// Runs the self-check on the device that the options name, on a handle of its own, and remembers
/// the result on disk and in the process.
///
/// Throws what opening and running throw. Cost: compiles 32 kernels a precision.
SelfCheck run_self_check(const DeviceOptions& options);

/// The result that is remembered, or run_self_check(). A device is opened for the latter alone.
SelfCheck self_check(const DeviceOptions& options);

/// Remembers a result as run_self_check() does: a test's way to a device that failed.
void remember_self_check(const DeviceOptions& options, const SelfCheck& result);

/// Throws Error{Unsupported}, with what is wrong, if self_check() did not pass, and what it throws.
/// For those who choose a device by themselves; a device that was asked for is not refused.
void require_self_check(const DeviceOptions& options);

}  // namespace topograd::runtime::vulkan
