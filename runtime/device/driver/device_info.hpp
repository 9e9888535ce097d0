// Description of a Vulkan device, and choice among the available ones.
#pragma once

#include "../../../codegen/precision.hpp"
#include "../../../ir/enum_table.hpp"
#include "../../backend.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "features.hpp"

namespace topograd::runtime::vulkan {

/// How to find and open a device. Equal options give the same Device.
struct DeviceOptions {
  /// Index (decimal) or part of a name, any case. Empty: TOPOGRAD_DEVICE, else the best device
  /// that is not software, else software.
  std::string device;
  /// Comma-separated mask names (features.hpp), in addition to TOPOGRAD_MASK.
  std::string mask;
  /// f64 of its kernels; also TOPOGRAD_FLOAT64.
  codegen::Float64 float64 = codegen::Float64::automatic;
  LimitOverrides limits;
  /// Validation layer with synchronisation validation; also with TOPOGRAD_VALIDATION=1.
  bool validation = false;
  /// Seconds without progress after which a wait throws Error{Timeout}; > 0.
  double timeout_seconds = 60;
  /// Path or file name of libvulkan. Empty: TOPOGRAD_VULKAN_LOADER, else libvulkan.so.1.
  std::string loader;
  /// Folder of the disk cache. Empty: TOPOGRAD_CACHE_DIR, else XDG.
  std::string cache_dir;

  bool operator==(const DeviceOptions&) const = default;
};

enum class DeviceType { Other, Integrated, Discrete, Virtual, Software };
TG_ENUM_NAMES(DeviceType)

struct MemoryHeap {
  std::uint64_t size = 0;    ///< bytes
  std::uint64_t budget = 0;  ///< bytes this process may use; = size without VK_EXT_memory_budget
  bool device_local = false;
};

struct DeviceInfo {
  std::uint32_t index = 0;  ///< value for DeviceOptions::device
  std::string name;
  DeviceType type = DeviceType::Other;
  std::uint32_t vendor_id = 0;
  std::uint32_t device_id = 0;
  std::string vendor;          ///< a name if the id is known, else hexadecimal
  std::string driver;          ///< e.g. "llvmpipe", "NVIDIA"
  std::string driver_version;  ///< as the driver prints it
  std::string api_version;     ///< e.g. "1.3.230"
  Features features;           ///< after masks
  Limits limits;               ///< after masks and overrides
  std::vector<MemoryHeap> heaps;
  bool unified = false;  ///< the host reads and writes its memory, through a cache, after masks
  std::array<std::uint8_t, 16> uuid{};
  std::array<std::uint8_t, 16> driver_uuid{};
  /// Empty if the device can be opened, else the missing features.
  std::string unusable;

  bool software() const { return type == DeviceType::Software; }
};

/// The facts about a device that do not depend on Vulkan.
DeviceFacts facts_of(const DeviceInfo& info);

/// Index in `list` of the device that the options name (see DeviceOptions::device, including
/// TOPOGRAD_DEVICE).
///
/// Throws Error{NoDevice}, listing the available ones, or Error{Unsupported} if the named device
/// lacks required features.
std::size_t choose_device(const std::vector<DeviceInfo>& list, const DeviceOptions& options);

}  // namespace topograd::runtime::vulkan
