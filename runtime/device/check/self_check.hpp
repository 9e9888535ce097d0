// The check that a device computes what shaders say.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "../../rows/compositions.hpp"
#include "../device.hpp"

namespace topograd::runtime::vulkan {

/// The result of a few compositions of functions, run once for each device, driver and version of
/// the generated functions.
struct SelfCheck {
  std::uint64_t compared = 0;  ///< numbers; 0 if the result was remembered
  std::string problem;         ///< the first wrong number, one line; empty if none

  bool passed() const { return problem.empty(); }
};

/// Compositions that the self-check runs, in each precision of the device.
const std::vector<Composition>& self_check_compositions();

/// Runs the self-check on the device of the options, on a separate handle, and stores the result on
/// disk and in the process.
///
/// Throws the errors of opening and running. Cost: compiles 32 kernels per precision.
SelfCheck run_self_check(const DeviceOptions& options);

/// Returns the stored result, or that of run_self_check(), which alone opens a device.
SelfCheck self_check(const DeviceOptions& options);

/// Stores a result as run_self_check() does, so that tests can make a device fail.
void remember_self_check(const DeviceOptions& options, const SelfCheck& result);

/// Throws Error{Unsupported} with the problem if self_check() did not pass, and its errors. For
/// automatic choices of a device; a device that the user names is not refused.
void require_self_check(const DeviceOptions& options);

}  // namespace topograd::runtime::vulkan
