// Buffers in the caller's memory.
#include "../device.hpp"

#include "../driver/instance.hpp"
#include "core.hpp"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace topograd::runtime::vulkan {
namespace {

constexpr auto kHandle = vk::ExternalMemoryHandleTypeFlagBits::eHostAllocationEXT;

/// State without a pool: its memory is freed with the buffer.
struct ImportedState final : BufferState {
  vk::raii::DeviceMemory memory{nullptr};

  ~ImportedState() {
    slot.buffer = nullptr;
    core = nullptr;  // its pools do not own the memory
  }
};

/// Finds a memory type that pointer and buffer allow; coherent, so that no flush is needed.
std::optional<std::uint32_t> memory_type(Core& core, std::uint32_t allowed) {
  const vk::PhysicalDeviceMemoryProperties types = core.physical.getMemoryProperties();
  constexpr vk::MemoryPropertyFlags kWanted =
      vk::MemoryPropertyFlagBits::eHostVisible | vk::MemoryPropertyFlagBits::eHostCoherent;
  for (std::uint32_t k = 0; k < types.memoryTypeCount; ++k) {
    if ((allowed >> k & 1) != 0 && (types.memoryTypes[k].propertyFlags & kWanted) == kWanted)
      return k;
  }
  return std::nullopt;
}

vk::raii::Buffer make_buffer(Core& core, std::uint64_t size) {
  using Usage = vk::BufferUsageFlagBits;
  const vk::ExternalMemoryBufferCreateInfo external(kHandle);
  vk::BufferCreateInfo info({}, size,
                            Usage::eStorageBuffer | Usage::eTransferSrc | Usage::eTransferDst);
  info.pNext = &external;
  return core.driver.call("vkCreateBuffer", [&] { return core.device.createBuffer(info); });
}

std::shared_ptr<BufferState> import_state(Core& core, std::span<std::byte> memory) {
  const std::uint32_t types = core.driver.call("vkGetMemoryHostPointerPropertiesEXT", [&] {
    return core.device.getMemoryHostPointerPropertiesEXT(kHandle, memory.data()).memoryTypeBits;
  });
  auto state = std::make_shared<ImportedState>();
  state->slot.buffer = make_buffer(core, memory.size());
  const vk::MemoryRequirements needs = state->slot.buffer.getMemoryRequirements();
  const auto type = memory_type(core, types & needs.memoryTypeBits);
  if (!type || needs.size > memory.size()) return nullptr;
  const vk::ImportMemoryHostPointerInfoEXT pointer(kHandle, memory.data());
  vk::MemoryAllocateInfo info(memory.size(), *type);
  info.pNext = &pointer;
  state->memory =
      core.driver.call("vkAllocateMemory", [&] { return core.device.allocateMemory(info); });
  core.driver.call("vkBindBufferMemory", [&] { state->slot.buffer.bindMemory(*state->memory, 0); });
  state->core = &core;
  state->size = memory.size();
  state->mapped = memory.data();
  state->cached = true;
  return state;
}

}  // namespace

std::uint64_t import_alignment(const vk::raii::PhysicalDevice& physical, const Features& features) {
  if (!features.mapped_memory) return 0;
  const std::vector<std::string> extensions = extension_names(physical);
  if (std::ranges::find(extensions, VK_EXT_EXTERNAL_MEMORY_HOST_EXTENSION_NAME) == extensions.end())
    return 0;
  return physical
      .getProperties2<vk::PhysicalDeviceProperties2,
                      vk::PhysicalDeviceExternalMemoryHostPropertiesEXT>()
      .get<vk::PhysicalDeviceExternalMemoryHostPropertiesEXT>()
      .minImportedHostPointerAlignment;
}

std::uint64_t host_import_alignment(const Device& device) {
  return import_alignment(device.core()->physical, device.features());
}

std::optional<Buffer> import_host_memory(Device& device, std::span<std::byte> memory,
                                         std::string_view name) {
  const std::uint64_t step = host_import_alignment(device);
  const auto address = reinterpret_cast<std::uintptr_t>(memory.data());
  if (step == 0 || memory.empty() || address % step != 0 || memory.size() % step != 0)
    return std::nullopt;
  try {
    std::shared_ptr<BufferState> state = import_state(*device.core(), memory);
    if (!state) return std::nullopt;
    state->name = name;
    device.core()->set_name(state->slot.buffer, state->name);
    return Buffer(device.core(), std::move(state));
  } catch (const Error& error) {
    // Memory that cannot be imported is copied.
    if (error.code() == ErrorCode::DeviceLost) throw;
    return std::nullopt;
  }
}

}  // namespace topograd::runtime::vulkan
