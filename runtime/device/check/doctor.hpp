// Checks of a machine's Vulkan installation, with advice on what to install.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "../device.hpp"

namespace topograd::runtime::vulkan {

struct DoctorCheck {
  std::string name;  ///< name of the check, e.g. "loader"
  bool ok = false;
  bool needed = true;  ///< false: Topograd works without it
  std::string detail;  ///< result in one line
  std::string advice;  ///< what to do; empty if ok
};

struct DoctorReport {
  std::vector<DoctorCheck> checks;
  /// True if every needed check is ok.
  bool ok() const;
};

/// Checks the loader, instance, drivers, devices, validation layer and float64, runs a shader, then
/// the self-check of functions (self_check.hpp).
///
///   square  SPIR-V that replaces v[i] by v[i] * v[i] in `float v[]` (set 0, binding 0) for
///           i < n (`uint n`, the only push constant), 64 invocations per workgroup along x.
///           Empty: no shader is run.
///
/// Does not throw: a failure is a check that is not ok.
DoctorReport doctor(const DeviceOptions& options, std::span<const std::uint32_t> square);

}  // namespace topograd::runtime::vulkan
