// Internal: the process's Vulkan loader and instance, and descriptions of its devices.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "../../../ir/machine/platform.hpp"
#include "device_info.hpp"
#include "driver.hpp"

namespace topograd::runtime::vulkan {

inline constexpr const char* kValidationLayer = "VK_LAYER_KHRONOS_validation";

/// "major.minor.patch".
std::string version_text(std::uint32_t version);

/// The loader library and its entry point.
struct Loader {
  std::string path;  ///< path of the opened library
  PFN_vkGetInstanceProcAddr entry = nullptr;
};

/// Opens the loader named by options and environment. Throws Error{NoLoader}.
Loader open_loader(const std::string& path);

/// The loader's entry point, or the wrapper that watch_driver() (faults.hpp) has installed.
PFN_vkGetInstanceProcAddr watched(PFN_vkGetInstanceProcAddr loader);

/// An instance, with the validation layer and its messenger if requested.
class Instance {
 public:
  /// Throws Error{NoLoader}, Error{NoDriver}, or Error{Unsupported} if the loader is too old or the
  /// validation layer is missing.
  Instance(const std::string& loader_path, bool validation);

  Driver& driver() { return driver_; }
  const Loader& loader() const { return loader_; }
  bool debug_utils() const { return debug_utils_; }
  std::uint32_t api_version() const { return api_version_; }
  /// Throws Error{NoDevice} if there is none.
  std::vector<vk::raii::PhysicalDevice> physical_devices();

 private:
  void create(bool validation);

  Driver driver_;
  Loader loader_;
  vk::raii::Context context_;
  std::uint32_t api_version_ = 0;
  bool debug_utils_ = false;
  vk::raii::Instance instance_{nullptr};
  vk::raii::DebugUtilsMessengerEXT messenger_{nullptr};
  std::atomic<bool> enumerated_{false};  // enumerated once: the drivers have started
};

/// Returns the instance for a loader; makes one if none is in use.
std::shared_ptr<Instance> shared_instance(const DeviceOptions& options);

/// Adds the environment's settings to options, so that equal options mean equal devices: loader,
/// mask (canonical), validation. Throws Error{InvalidArgument}.
DeviceOptions resolved(DeviceOptions options);

/// True if the loader finds the validation layer.
bool has_validation_layer(const Loader& loader);

/// Describes a device after mask and overrides of `options` (resolved).
DeviceInfo describe(const vk::raii::PhysicalDevice& physical, std::uint32_t index,
                    const DeviceOptions& options);

/// The queue family for compute, or nothing.
std::optional<std::uint32_t> compute_family(const vk::raii::PhysicalDevice& physical);

/// Names of the device's extensions.
std::vector<std::string> extension_names(const vk::raii::PhysicalDevice& physical);

/// Heaps with their budgets at this moment.
std::vector<MemoryHeap> memory_heaps(const vk::raii::PhysicalDevice& physical, bool budget);

/// A memory type for data of a device.
struct DeviceMemoryType {
  std::uint32_t index = 0, heap = 0;
  bool mappable = false, cached = false;
};

/// The best type for data of a device: in its own memory first, then in the largest heap, then
/// mapped or not as wanted, then cached. Nothing if no type is allowed.
///
///   allowed  one bit a type
std::optional<DeviceMemoryType> device_memory_type(const vk::PhysicalDeviceMemoryProperties& memory,
                                                   bool may_map, std::uint32_t allowed);

/// Messenger that passes warnings and errors of the layers to the validation sink.
vk::DebugUtilsMessengerCreateInfoEXT messenger_info();

}  // namespace topograd::runtime::vulkan
