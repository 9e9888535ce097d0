// The backends that run kernels, and the description of a device.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "../ir/enum_table.hpp"
#include "../ir/error.hpp"

namespace topograd::runtime {

enum class Backend { cpu, vulkan };
TG_ENUM_NAMES(Backend)

/// The facts of a device: the CPU, or one that a backend has found. Code that chooses devices or
/// reports about them reads this; a driver's features and limits are in
/// runtime/device/driver/device_info.hpp.
struct DeviceFacts {
  std::string name;  ///< "cpu", or the driver's name for it
  std::string kind;  ///< "cpu", "discrete", "integrated", "virtual", "software", ...
  std::string driver;
  std::uint64_t memory_bytes = 0;         ///< available to this process; 0 = not known
  std::uint32_t shared_memory_bytes = 0;  ///< of a workgroup
  bool float64 = true;                    ///< supports f64, native or emulated
  bool emulated_float64 = false;          ///< by 32-bit integers
  bool unified = false;                   ///< the host reads and writes its memory without a copy
  std::vector<std::string> features;      ///< names of a driver's features
  bool available = true;
  std::string problem;                   ///< if not available: why, with advice
  ErrorCode code = ErrorCode::NoDevice;  ///< if not available: the error of its use
  bool failed = false;  ///< if not available: a driver is there, and failed when it was asked
  int threads = 0;      ///< of the CPU
  std::string simd;     ///< of the CPU: hybrid::simd_level()

  /// Vulkan on the CPU.
  bool software() const { return kind == "software"; }
};

}  // namespace topograd::runtime
