// Descriptions of physical devices, and the choice among them from options and environment.
#include "device_info.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdio>
#include <optional>
#include <tuple>
#include <utility>

#include "../../../ir/error.hpp"
#include "../../../ir/machine/platform.hpp"
#include "instance.hpp"

namespace topograd::runtime::vulkan {
namespace {

// One counter for all loops of an invocation, against hangs (Mesa 22.3.6; not queryable).
constexpr std::uint32_t kLlvmpipeLoopIterations = 65535;
constexpr std::uint64_t kSwiftshaderInstructions = 188'000;

std::string vendor_name(std::uint32_t id) {
  switch (id) {
    case 0x1002: return "AMD";
    case 0x1010: return "Imagination";
    case 0x106b: return "Apple";
    case 0x10de: return "NVIDIA";
    case 0x13b5: return "Arm";
    case 0x5143: return "Qualcomm";
    case 0x8086: return "Intel";
    case VK_VENDOR_ID_MESA: return "Mesa";
    default: break;
  }
  char text[16];
  std::snprintf(text, sizeof text, "0x%04x", id);
  return text;
}

DeviceType device_type(vk::PhysicalDeviceType type) {
  switch (type) {
    case vk::PhysicalDeviceType::eIntegratedGpu: return DeviceType::Integrated;
    case vk::PhysicalDeviceType::eDiscreteGpu: return DeviceType::Discrete;
    case vk::PhysicalDeviceType::eVirtualGpu: return DeviceType::Virtual;
    case vk::PhysicalDeviceType::eCpu: return DeviceType::Software;
    default: return DeviceType::Other;
  }
}

void apply_float64(codegen::Float64 wanted, Features& features) {
  if (wanted == codegen::Float64::native) return;
  features.emulated_float64 = wanted == codegen::Float64::emulated || !features.float64;
  if (!features.emulated_float64) return;
  features.float64 = features.atomic_float64_add = false;
  features.signed_zero_inf_nan_preserve_f64 = features.denorm_preserve_f64 = false;
}

bool has(const std::vector<std::string>& names, const char* name) {
  return std::ranges::find(names, name) != names.end();
}

bool mapped_device_memory(const vk::raii::PhysicalDevice& physical) {
  using Flag = vk::MemoryPropertyFlagBits;
  const auto wanted = Flag::eDeviceLocal | Flag::eHostVisible | Flag::eHostCoherent;
  const auto properties = physical.getMemoryProperties();
  for (std::uint32_t i = 0; i < properties.memoryTypeCount; ++i) {
    if ((properties.memoryTypes[i].propertyFlags & wanted) == wanted) return true;
  }
  return false;
}

void read_limits(const vk::PhysicalDeviceLimits& source, Limits& limits) {
  limits.max_storage_buffer_range = source.maxStorageBufferRange;
  limits.storage_buffer_offset_alignment = source.minStorageBufferOffsetAlignment;
  limits.max_workgroup_size_x = source.maxComputeWorkGroupSize[0];
  limits.max_workgroup_invocations = source.maxComputeWorkGroupInvocations;
  limits.max_workgroups_x = source.maxComputeWorkGroupCount[0];
  limits.max_workgroups_y = source.maxComputeWorkGroupCount[1];
  limits.max_workgroups_z = source.maxComputeWorkGroupCount[2];
  limits.shared_memory_bytes = source.maxComputeSharedMemorySize;
  limits.max_storage_buffers_per_stage =
      std::min(source.maxPerStageDescriptorStorageBuffers, source.maxDescriptorSetStorageBuffers);
  limits.max_push_constant_bytes = source.maxPushConstantsSize;
  limits.timestamp_period_ns = source.timestampPeriod;
}

void read_identity(const vk::PhysicalDeviceProperties& source, DeviceInfo& info) {
  info.name = source.deviceName.data();
  info.type = device_type(source.deviceType);
  info.vendor_id = source.vendorID;
  info.device_id = source.deviceID;
  info.vendor = vendor_name(source.vendorID);
  info.api_version = version_text(source.apiVersion);
  info.driver_version = version_text(source.driverVersion);
}

// Reads everything that needs Vulkan 1.2.
void read_properties(const vk::raii::PhysicalDevice& physical, DeviceInfo& info) {
  const auto chain =
      physical.getProperties2<vk::PhysicalDeviceProperties2, vk::PhysicalDeviceVulkan11Properties,
                              vk::PhysicalDeviceVulkan12Properties>();
  const auto& core11 = chain.get<vk::PhysicalDeviceVulkan11Properties>();
  const auto& core12 = chain.get<vk::PhysicalDeviceVulkan12Properties>();
  info.uuid = core11.deviceUUID;
  info.driver_uuid = core11.driverUUID;
  info.driver = core12.driverName.data();
  if (core12.driverInfo[0] != '\0') info.driver_version = core12.driverInfo.data();
  info.limits.max_allocation_size = core11.maxMemoryAllocationSize;
  if (core12.driverID == vk::DriverId::eMesaLlvmpipe) {
    info.limits.max_loop_iterations = kLlvmpipeLoopIterations;
  }
  if (core12.driverID == vk::DriverId::eGoogleSwiftshader)
    info.limits.max_inlined_instructions = kSwiftshaderInstructions;

  Features& features = info.features;
  const bool compute =
      static_cast<bool>(core11.subgroupSupportedStages & vk::ShaderStageFlagBits::eCompute);
  const auto operations = core11.subgroupSupportedOperations;
  features.subgroup_basic =
      compute && static_cast<bool>(operations & vk::SubgroupFeatureFlagBits::eBasic);
  features.subgroup_arithmetic =
      compute && static_cast<bool>(operations & vk::SubgroupFeatureFlagBits::eArithmetic);
  info.limits.subgroup_size = features.subgroup_basic ? core11.subgroupSize : 1;
  features.signed_zero_inf_nan_preserve_f32 = core12.shaderSignedZeroInfNanPreserveFloat32;
  features.signed_zero_inf_nan_preserve_f64 = core12.shaderSignedZeroInfNanPreserveFloat64;
  features.denorm_preserve_f32 = core12.shaderDenormPreserveFloat32;
  features.denorm_preserve_f64 = core12.shaderDenormPreserveFloat64;
}

void read_features(const vk::raii::PhysicalDevice& physical, const std::vector<std::string>& names,
                   DeviceInfo& info) {
  const auto chain =
      physical.getFeatures2<vk::PhysicalDeviceFeatures2, vk::PhysicalDeviceVulkan12Features,
                            vk::PhysicalDeviceShaderAtomicFloatFeaturesEXT,
                            vk::PhysicalDevicePipelineExecutablePropertiesFeaturesKHR,
                            vk::PhysicalDeviceCooperativeMatrixFeaturesNV>();
  const auto& core = chain.get<vk::PhysicalDeviceFeatures2>().features;
  const auto& core12 = chain.get<vk::PhysicalDeviceVulkan12Features>();
  const auto& atomics = chain.get<vk::PhysicalDeviceShaderAtomicFloatFeaturesEXT>();
  const bool float_atomics = has(names, VK_EXT_SHADER_ATOMIC_FLOAT_EXTENSION_NAME);
  Features& features = info.features;
  features.float64 = core.shaderFloat64;
  features.int64 = core.shaderInt64;
  features.int64_atomics = core.shaderInt64 && core12.shaderBufferInt64Atomics;
  features.atomic_float32_add = float_atomics && atomics.shaderBufferFloat32AtomicAdd;
  features.atomic_float64_add =
      float_atomics && core.shaderFloat64 && atomics.shaderBufferFloat64AtomicAdd;
  features.mapped_memory = mapped_device_memory(physical);
  features.memory_budget = has(names, VK_EXT_MEMORY_BUDGET_EXTENSION_NAME);
  features.pipeline_executable_properties =
      has(names, VK_KHR_PIPELINE_EXECUTABLE_PROPERTIES_EXTENSION_NAME) &&
      chain.get<vk::PhysicalDevicePipelineExecutablePropertiesFeaturesKHR>().pipelineExecutableInfo;
  features.cooperative_matrix =
      has(names, VK_NV_COOPERATIVE_MATRIX_EXTENSION_NAME) && core12.shaderFloat16 &&
      core12.vulkanMemoryModel && core12.vulkanMemoryModelDeviceScope &&
      chain.get<vk::PhysicalDeviceCooperativeMatrixFeaturesNV>().cooperativeMatrix;
  if (!core12.timelineSemaphore) info.unusable = "it has no timeline semaphores";
}

}  // namespace

std::string version_text(std::uint32_t version) {
  return std::to_string(VK_API_VERSION_MAJOR(version)) + "." +
         std::to_string(VK_API_VERSION_MINOR(version)) + "." +
         std::to_string(VK_API_VERSION_PATCH(version));
}

std::vector<std::string> extension_names(const vk::raii::PhysicalDevice& physical) {
  std::vector<std::string> names;
  Driver driver;
  const auto list = driver.call("vkEnumerateDeviceExtensionProperties",
                                [&] { return physical.enumerateDeviceExtensionProperties(); });
  for (const auto& extension : list) {
    names.emplace_back(extension.extensionName.data());
  }
  return names;
}

std::optional<std::uint32_t> compute_family(const vk::raii::PhysicalDevice& physical) {
  const auto families = physical.getQueueFamilyProperties();
  for (std::uint32_t i = 0; i < families.size(); ++i) {
    if (families[i].queueFlags & vk::QueueFlagBits::eCompute) return i;
  }
  return std::nullopt;
}

std::vector<MemoryHeap> memory_heaps(const vk::raii::PhysicalDevice& physical, bool budget) {
  vk::PhysicalDeviceMemoryProperties properties = physical.getMemoryProperties();
  vk::PhysicalDeviceMemoryBudgetPropertiesEXT budgets;
  if (budget) {
    const auto chain = physical.getMemoryProperties2<vk::PhysicalDeviceMemoryProperties2,
                                                     vk::PhysicalDeviceMemoryBudgetPropertiesEXT>();
    budgets = chain.get<vk::PhysicalDeviceMemoryBudgetPropertiesEXT>();
  }
  std::vector<MemoryHeap> heaps;
  for (std::uint32_t i = 0; i < properties.memoryHeapCount; ++i) {
    const vk::MemoryHeap& heap = properties.memoryHeaps[i];
    heaps.push_back({heap.size, budget ? budgets.heapBudget[i] : heap.size,
                     static_cast<bool>(heap.flags & vk::MemoryHeapFlagBits::eDeviceLocal)});
  }
  return heaps;
}

DeviceInfo describe(const vk::raii::PhysicalDevice& physical, std::uint32_t index,
                    const DeviceOptions& options) {
  DeviceInfo info;
  const vk::PhysicalDeviceProperties properties = physical.getProperties();
  info.index = index;
  read_identity(properties, info);
  read_limits(properties.limits, info.limits);
  const auto family = compute_family(physical);
  if (properties.apiVersion < VK_API_VERSION_1_2) {
    info.unusable = "it has Vulkan " + info.api_version + ", not 1.2";
  } else if (!family) {
    info.unusable = "it has no compute queue";
  } else {
    read_properties(physical, info);
    read_features(physical, extension_names(physical), info);
    info.features.timestamps = properties.limits.timestampPeriod > 0 &&
                               physical.getQueueFamilyProperties()[*family].timestampValidBits > 0;
  }
  info.heaps = memory_heaps(physical, info.features.memory_budget);
  apply_mask(parse_mask(options.mask), info.features, info.limits);
  apply_float64(options.float64, info.features);
  apply_overrides(options.limits, info.features, info.limits);
  const auto type =
      device_memory_type(physical.getMemoryProperties(), info.features.mapped_memory, ~0u);
  info.unified = info.features.mapped_memory && type && type->mappable && type->cached;
  return info;
}

std::optional<DeviceMemoryType> device_memory_type(const vk::PhysicalDeviceMemoryProperties& memory,
                                                   bool may_map, std::uint32_t allowed) {
  using Flag = vk::MemoryPropertyFlagBits;
  constexpr vk::MemoryPropertyFlags kMappable = Flag::eHostVisible | Flag::eHostCoherent;
  constexpr vk::MemoryPropertyFlags kSpecial = Flag::eProtected | Flag::eLazilyAllocated |
                                               Flag::eDeviceCoherentAMD | Flag::eDeviceUncachedAMD;
  std::tuple<bool, std::uint64_t, bool, bool> best;
  std::optional<DeviceMemoryType> chosen;
  for (std::uint32_t k = 0; k < memory.memoryTypeCount; ++k) {
    const vk::MemoryPropertyFlags flags = memory.memoryTypes[k].propertyFlags;
    if ((allowed >> k & 1) == 0 || (flags & kSpecial)) continue;
    const bool local{flags & Flag::eDeviceLocal}, cached{flags & Flag::eHostCached};
    const bool mappable = (flags & kMappable) == kMappable;
    const std::uint32_t heap = memory.memoryTypes[k].heapIndex;
    const std::tuple key(local, std::uint64_t{memory.memoryHeaps[heap].size}, mappable == may_map,
                         cached);
    if (chosen && key <= best) continue;
    best = key;
    chosen = DeviceMemoryType{k, heap, mappable, cached};
  }
  return chosen;
}

namespace {

std::string lower(std::string text) {
  std::ranges::transform(text, text.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

std::string listed(const std::vector<DeviceInfo>& list) {
  std::string text;
  for (const DeviceInfo& info : list) {
    text += (text.empty() ? "" : ", ") + std::to_string(info.index) + " = \"" + info.name + "\" (" +
            std::string(name(info.type)) + (info.unusable.empty() ? "" : "; " + info.unusable) +
            ")";
  }
  return text.empty() ? "none" : text;
}

int rank(DeviceType type) {
  switch (type) {
    case DeviceType::Discrete: return 4;
    case DeviceType::Integrated: return 3;
    case DeviceType::Virtual: return 2;
    case DeviceType::Other: return 1;
    case DeviceType::Software: return 0;
  }
  return 0;
}

std::uint64_t local_bytes(const DeviceInfo& info) {
  std::uint64_t bytes = 0;
  for (const MemoryHeap& heap : info.heaps) {
    if (heap.device_local) bytes = std::max(bytes, heap.size);
  }
  return bytes;
}

bool better(const DeviceInfo& a, const DeviceInfo& b) {
  const auto key = [](const DeviceInfo& info) {
    return std::tuple(info.unusable.empty(), rank(info.type), local_bytes(info));
  };
  return key(a) > key(b);
}

bool named(const DeviceInfo& info, const std::string& wanted) {
  std::uint32_t index = 0;
  const char* end = wanted.data() + wanted.size();
  const auto [stop, error] = std::from_chars(wanted.data(), end, index);
  if (error == std::errc{} && stop == end) return info.index == index;
  return lower(info.name).find(lower(wanted)) != std::string::npos;
}

}  // namespace

DeviceFacts facts_of(const DeviceInfo& info) {
  const Features& f = info.features;
  DeviceFacts facts{.name = info.name,
                    .kind = std::string(name(info.type)),
                    .driver = info.driver + " " + info.driver_version,
                    .shared_memory_bytes = info.limits.shared_memory_bytes,
                    .float64 = f.has_float64(),
                    .emulated_float64 = f.emulated_float64,
                    .unified = info.unified,
                    .available = info.unusable.empty(),
                    .problem = info.unusable,
                    .code = ErrorCode::Unsupported};
  for (const MemoryHeap& heap : info.heaps)
    if (heap.device_local) facts.memory_bytes = std::max(facts.memory_bytes, heap.budget);
  const std::pair<bool, const char*> named[] = {{f.has_float64(), "float64"},
                                                {f.int64, "int64"},
                                                {f.atomic_float32_add, "float32_atomics"},
                                                {f.atomic_float64_add, "float64_atomics"},
                                                {f.int64_atomics, "int64_atomics"},
                                                {f.subgroup_arithmetic, "subgroups"},
                                                {f.mapped_memory, "mapped_memory"},
                                                {f.timestamps, "timestamps"},
                                                {f.memory_budget, "memory_budget"}};
  for (const auto& [there, feature] : named)
    if (there) facts.features.emplace_back(feature);
  return facts;
}

std::size_t choose_device(const std::vector<DeviceInfo>& list, const DeviceOptions& options) {
  const std::string wanted = options.device.empty()
                                 ? platform::environment("TOPOGRAD_DEVICE").value_or("")
                                 : options.device;
  auto best = list.end();
  for (auto it = list.begin(); it != list.end(); ++it) {
    if (!wanted.empty() && !named(*it, wanted)) continue;
    if (best == list.end() || better(*it, *best)) best = it;
  }
  if (best == list.end()) {
    throw Error(ErrorCode::NoDevice, "vulkan: no device " +
                                         (wanted.empty() ? "" : "\"" + wanted + "\" ") +
                                         "found; there is: " + listed(list));
  }
  if (!best->unusable.empty()) {
    throw Error(wanted.empty() ? ErrorCode::NoDevice : ErrorCode::Unsupported,
                "vulkan: device \"" + best->name + "\" cannot be used: " + best->unusable +
                    "; there is: " + listed(list));
  }
  return static_cast<std::size_t>(best - list.begin());
}

}  // namespace topograd::runtime::vulkan
