// Which backend a solve or an Evaluator runs on, decided once from the whole problem's work.
#pragma once

#include "../../ir/error.hpp"
#include "../options.hpp"

#include <cstdint>
#include <functional>
#include <string>

namespace topograd {

/// What is known of the device that the options choose, without opening it.
struct DeviceFacts {
  bool usable = false;
  std::string name;
  bool software = false;  ///< Vulkan on the CPU
  bool float64 = false;
  ErrorCode code = ErrorCode::NoDevice;  ///< if not usable: what a forced backend throws
  std::string problem;                   ///< if not usable: why, with advice
  bool failed = false;  ///< if not usable: a driver is there, and failed when it was asked
};

/// Looks for the device; called only where the answer matters.
using DeviceProbe = std::function<DeviceFacts(const SolverOptions&)>;

struct Placement {
  Backend backend = Backend::cpu;  ///< cpu or vulkan
  std::string why;                 ///< one line for the report
};

/// True if the options or TOPOGRAD_DEVICE name a device.
bool names_device(const SolverOptions& options);

/// Decides where all batches run. `cpu` never probes. `vulkan` takes the device or throws.
/// `automatic` takes the CPU below the threshold, where there is no device that fits, and where the
/// only one is software that was not named.
///
///   options    resolved
///   instances  of all batches together
///   named      names_device(options)
///
/// Throws Error for `vulkan` alone: with the probe's code, or Unsupported if f64 is asked of a
/// device without.
Placement place(const SolverOptions& options, std::uint64_t instances, bool named,
                const DeviceProbe& probe);

}  // namespace topograd
