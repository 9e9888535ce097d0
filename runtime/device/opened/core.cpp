// Creation of the logical device with exactly the features that exist and are not masked.
#include "core.hpp"

#include <algorithm>
#include <utility>

#include "../device.hpp"
#include "../driver/instance.hpp"

namespace topograd::runtime::vulkan {
namespace {

// Change it with the layout or contents of cached blobs.
constexpr const char* kGenerator = "topograd-vulkan-1";

std::string identity(const DeviceInfo& info) {
  std::string text = info.name + "\n" + info.driver + "\n" + info.driver_version + "\n" +
                     info.api_version + "\n" + std::to_string(info.vendor_id) + "\n" +
                     std::to_string(info.device_id) + "\n";
  text.append(info.uuid.begin(), info.uuid.end());
  text.append(info.driver_uuid.begin(), info.driver_uuid.end());
  return text;
}

/// The feature structures of one vkCreateDevice, chained where their extension is enabled.
struct Enabled {
  vk::PhysicalDeviceFeatures2 core;
  vk::PhysicalDeviceVulkan12Features core12;
  vk::PhysicalDeviceShaderAtomicFloatFeaturesEXT atomics;
  vk::PhysicalDevicePipelineExecutablePropertiesFeaturesKHR executable;
  vk::PhysicalDeviceCooperativeMatrixFeaturesNV matrix;
  std::vector<const char*> extensions;

  explicit Enabled(const Features& wanted, bool subgroup_extended_types);
  Enabled(const Enabled&) = delete;
  Enabled& operator=(const Enabled&) = delete;

  template <class Struct>
  void chain(Struct& part, const char* extension) {
    part.pNext = core12.pNext;
    core12.pNext = &part;
    extensions.push_back(extension);
  }
};

Enabled::Enabled(const Features& wanted, bool subgroup_extended_types) {
  core.pNext = &core12;
  core.features.shaderFloat64 = wanted.float64;
  core.features.shaderInt64 = wanted.int64;
  core12.timelineSemaphore = true;
  core12.shaderBufferInt64Atomics = wanted.int64_atomics;
  core12.shaderSubgroupExtendedTypes = wanted.subgroup_basic && subgroup_extended_types;
  if (wanted.atomic_float32_add || wanted.atomic_float64_add) {
    // The layers and the specification require plain atomics along with the additions.
    atomics.shaderBufferFloat32AtomicAdd = wanted.atomic_float32_add;
    atomics.shaderBufferFloat64AtomicAdd = wanted.atomic_float64_add;
    chain(atomics, VK_EXT_SHADER_ATOMIC_FLOAT_EXTENSION_NAME);
  }
  if (wanted.pipeline_executable_properties) {
    executable.pipelineExecutableInfo = true;
    chain(executable, VK_KHR_PIPELINE_EXECUTABLE_PROPERTIES_EXTENSION_NAME);
  }
  if (wanted.cooperative_matrix) {
    matrix.cooperativeMatrix = true;
    // Modules with such matrices use f16 and declare the memory model, which then applies to all:
    // atomics have device scope.
    core12.shaderFloat16 = core12.vulkanMemoryModel = core12.vulkanMemoryModelDeviceScope = true;
    chain(matrix, VK_NV_COOPERATIVE_MATRIX_EXTENSION_NAME);
  }
  if (wanted.memory_budget) extensions.push_back(VK_EXT_MEMORY_BUDGET_EXTENSION_NAME);
}

bool has_subgroup_extended_types(const vk::raii::PhysicalDevice& physical) {
  const auto chain =
      physical.getFeatures2<vk::PhysicalDeviceFeatures2, vk::PhysicalDeviceVulkan12Features>();
  return chain.get<vk::PhysicalDeviceVulkan12Features>().shaderSubgroupExtendedTypes;
}

}  // namespace

bool has_subgroup_shuffle(const Device& device) {
  if (!device.features().subgroup_basic) return false;
  const auto chain =
      device.core()
          ->physical
          .getProperties2<vk::PhysicalDeviceProperties2, vk::PhysicalDeviceVulkan11Properties>();
  constexpr auto kWanted =
      vk::SubgroupFeatureFlagBits::eBallot | vk::SubgroupFeatureFlagBits::eShuffle;
  const auto there = chain.get<vk::PhysicalDeviceVulkan11Properties>().subgroupSupportedOperations;
  return (there & kWanted) == kWanted;
}

DiskCacheOptions disk_cache_options(const DeviceOptions& options, const DeviceInfo& info) {
  return {.folder = options.cache_dir, .generator = kGenerator, .identity = identity(info)};
}

Core::Core(std::shared_ptr<Instance> shared_instance, vk::raii::PhysicalDevice physical_device,
           DeviceInfo device_info, DeviceOptions device_options)
    : options(std::move(device_options)),
      info(std::move(device_info)),
      instance(std::move(shared_instance)),
      physical(std::move(physical_device)),
      disk_cache(disk_cache_options(options, info)),
      memory(*this),
      kernels(*this),
      staging(*this),
      spare_lists(*this),
      queue(*this) {
  driver.set_device_name("device \"" + info.name + "\"");
  create_device();
  memory.start();
  kernels.start();
  queue.start();
}

Core::~Core() {
  try {
    kernels.save();
    // All work has ended (see retire), so this returns at once, but threads of layers catch up.
    if (!driver.lost() && queue.last() > 0) device.waitIdle();
  } catch (const std::exception&) {
    // Ignored: a missing cache costs a cold start, and a failing device is closed anyway.
  }
}

void Core::create_device() {
  family = compute_family(physical).value_or(0);
  timestamp_bits = physical.getQueueFamilyProperties()[family].timestampValidBits;
  Enabled enabled(info.features, has_subgroup_extended_types(physical));
  KhrMatrixFeatures matrices;
  if (has_khr_matrices(physical, info.features, options)) {
    matrices.cooperativeMatrix = VK_TRUE;
    enabled.chain(matrices, KhrMatrixFeatures::kExtension);
  }
  if (import_alignment(physical, info.features) > 0)
    enabled.extensions.push_back(VK_EXT_EXTERNAL_MEMORY_HOST_EXTENSION_NAME);
  const float priority = 1.0f;
  const vk::DeviceQueueCreateInfo queue_info({}, family, 1, &priority);
  vk::DeviceCreateInfo create_info({}, queue_info, {}, enabled.extensions);
  create_info.pNext = &enabled.core;
  device = driver.call("vkCreateDevice", [&] { return physical.createDevice(create_info); });
  set_name(device, "topograd_device");
}

void Core::set_name(vk::ObjectType type, std::uint64_t handle, const std::string& name) {
  if (!instance->debug_utils() || name.empty()) return;
  try {
    driver.call("vkSetDebugUtilsObjectNameEXT", [&] {
      device.setDebugUtilsObjectNameEXT(
          vk::DebugUtilsObjectNameInfoEXT(type, handle, name.c_str()));
    });
  } catch (const Error&) {
    // Names are for profilers. A device loss shows in the next call.
  }
}

namespace {

/// Slightly more than one thread's lists in flight.
constexpr std::size_t kMost = 16;

}  // namespace

ListParts SpareLists::take() {
  ListParts parts;
  {
    const std::lock_guard lock(mutex_);
    if (!spare_.empty()) {
      parts = std::move(spare_.back());
      spare_.pop_back();
    }
  }
  if (*parts.pool) {
    core_.driver.call("vkResetCommandPool", [&] { parts.pool.reset(); });
    if (parts.descriptors) parts.descriptors->reset();
  } else {
    std::tie(parts.pool, parts.commands) = make_commands(core_);
  }
  return parts;
}

void SpareLists::give(ListParts parts) noexcept {
  // Declared before the lock, so that surplus parts are destroyed after it.
  const std::lock_guard lock(mutex_);
  if (spare_.size() >= kMost || core_.driver.lost()) return;
  try {
    spare_.push_back(std::move(parts));
  } catch (const std::bad_alloc&) {
  }
}

bool has_khr_matrices(const vk::raii::PhysicalDevice& physical, const Features& features,
                      const DeviceOptions& options) {
  if (!features.cooperative_matrix || options.validation) return false;
  const auto names = extension_names(physical);
  if (std::ranges::find(names, KhrMatrixFeatures::kExtension) == names.end()) return false;
  KhrMatrixFeatures matrices;
  VkPhysicalDeviceFeatures2 asked{
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2, .pNext = &matrices, .features = {}};
  physical.getDispatcher()->vkGetPhysicalDeviceFeatures2(static_cast<VkPhysicalDevice>(*physical),
                                                         &asked);
  return matrices.cooperativeMatrix == VK_TRUE;
}

bool has_khr_matrices(const Device& device) {
  const Core& core = *device.core();
  return has_khr_matrices(core.physical, core.info.features, core.options);
}

}  // namespace topograd::runtime::vulkan
