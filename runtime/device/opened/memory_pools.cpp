// Pools of device memory, the Buffer handle, and checks of ranges.
#include "memory_pools.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "../device.hpp"
#include "../driver/instance.hpp"
#include "core.hpp"

namespace topograd::runtime::vulkan {

Buffer::Buffer(std::shared_ptr<Core> core, std::shared_ptr<BufferState> state)
    : core_(std::move(core)), state_(std::move(state)) {}

// The state is destroyed before the device to which it points.
Buffer& Buffer::operator=(Buffer&& other) noexcept {
  if (this == &other) return *this;
  state_ = std::move(other.state_);
  core_ = std::move(other.core_);
  return *this;
}

Buffer::~Buffer() = default;

std::uint64_t Buffer::size() const { return state_ ? state_->size : 0; }

const std::string& Buffer::name() const {
  static const std::string& none = *new std::string;
  return state_ ? state_->name : none;
}

MemoryKind Buffer::kind() const { return state_ ? state_->kind : MemoryKind::Device; }
std::byte* Buffer::mapped() const { return state_ ? state_->mapped : nullptr; }
bool Buffer::readable() const { return mapped() != nullptr && state_->cached; }

void check_range(const char* call, const BufferState& buffer, std::uint64_t offset,
                 std::uint64_t size) {
  if (offset <= buffer.size && size <= buffer.size - offset) return;
  throw Error(ErrorCode::InvalidArgument, std::string(call) + ": bytes " + std::to_string(offset) +
                                              " + " + std::to_string(size) +
                                              " do not lie in buffer \"" + buffer.name + "\" of " +
                                              std::to_string(buffer.size) + " bytes");
}

const std::shared_ptr<BufferState>& checked_state(const char* call, const Core& core,
                                                  const Buffer* buffer) {
  if (buffer == nullptr || !*buffer) {
    throw Error(ErrorCode::InvalidArgument, std::string(call) + ": expected a buffer, got none");
  }
  if (buffer->state()->core != &core) {
    throw Error(ErrorCode::InvalidArgument,
                std::string(call) + ": buffer \"" + buffer->name() + "\" is of another device");
  }
  return buffer->state();
}

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint64_t kGranule = 256;  // bytes; no driver aligns storage buffers further
// A block is this share of the memory of its kind, so that little of the last one is unused.
constexpr std::uint64_t kBlockShare = 64;
constexpr std::uint64_t kLeastBlockBytes = std::uint64_t{64} << 10;
constexpr std::uint64_t kMostBlockBytes = std::uint64_t{64} << 20;
// A slot larger than this part of a block gets its own block, which can be freed separately.
constexpr std::uint64_t kOwnBlockShare = 4;
constexpr std::uint64_t kClasses = 32;  // per octave
// A pooled slot may exceed a request by at most this part of it.
constexpr std::uint64_t kLooseShare = 8;

std::uint64_t round_up(std::uint64_t value, std::uint64_t step) {
  return (value + step - 1) / step * step;
}

std::size_t slot_of(MemoryKind kind) { return static_cast<std::size_t>(kind); }

vk::BufferCreateInfo buffer_info(std::uint64_t size) {
  using Usage = vk::BufferUsageFlagBits;
  return {
      {},
      size,
      Usage::eStorageBuffer | Usage::eTransferSrc | Usage::eTransferDst | Usage::eIndirectBuffer};
}

constexpr vk::MemoryPropertyFlags kMappable =
    vk::MemoryPropertyFlagBits::eHostVisible | vk::MemoryPropertyFlagBits::eHostCoherent;
constexpr vk::MemoryPropertyFlags kSpecial =
    vk::MemoryPropertyFlagBits::eProtected | vk::MemoryPropertyFlagBits::eLazilyAllocated |
    vk::MemoryPropertyFlagBits::eDeviceCoherentAMD | vk::MemoryPropertyFlagBits::eDeviceUncachedAMD;

struct Taste {
  bool right = false;  ///< more important than heap size
  int nice = 0;        ///< less important than heap size
};

// Staging memory is on the host, which writes faster to uncached and reads faster from cached
// memory.
Taste judge(MemoryKind kind, vk::MemoryPropertyFlags flags) {
  const bool local{flags & vk::MemoryPropertyFlagBits::eDeviceLocal};
  const bool cached{flags & vk::MemoryPropertyFlagBits::eHostCached};
  switch (kind) {
    case MemoryKind::Device: break;  // device_memory_type()
    case MemoryKind::Upload: return {!local, cached ? 0 : 1};
    case MemoryKind::Readback: return {cached, local ? 0 : 1};
  }
  return {};
}

bool is_out_of_memory(const Error& error) {
  return error.code() == ErrorCode::OutOfDeviceMemory || error.code() == ErrorCode::OutOfHostMemory;
}

}  // namespace

std::uint64_t size_class(std::uint64_t size) {
  return round_up(std::max<std::uint64_t>(size, 1),
                  std::max(std::bit_floor(size) / kClasses, kGranule));
}

BufferState::~BufferState() {
  if (core != nullptr) core->memory.give(*this);
}

void MemoryPools::start() {
  const vk::raii::Buffer probe = core_.driver.call(
      "vkCreateBuffer", [&] { return core_.device.createBuffer(buffer_info(kGranule)); });
  const std::uint32_t allowed = probe.getMemoryRequirements().memoryTypeBits;
  for (const MemoryKind kind : {MemoryKind::Device, MemoryKind::Upload, MemoryKind::Readback}) {
    types_[slot_of(kind)] = choose(kind, allowed);
  }
}

// Returns the best type: required properties first, then the largest heap, then useful properties.
std::optional<MemoryPools::Type> MemoryPools::choose(MemoryKind kind, std::uint32_t allowed) const {
  const vk::PhysicalDeviceMemoryProperties memory = core_.physical.getMemoryProperties();
  std::tuple<bool, std::uint64_t, int> best;
  std::optional<Type> chosen;
  if (kind == MemoryKind::Device) {
    const bool may_map = core_.info.features.mapped_memory;
    if (const auto type = device_memory_type(memory, may_map, allowed))
      chosen = Type{type->index, type->heap, type->mappable && may_map, type->cached};
  }
  for (std::uint32_t i = 0; i < memory.memoryTypeCount && kind != MemoryKind::Device; ++i) {
    const vk::MemoryPropertyFlags flags = memory.memoryTypes[i].propertyFlags;
    const bool mappable = (flags & kMappable) == kMappable;
    if ((allowed >> i & 1) == 0 || (flags & kSpecial) || !mappable) continue;
    const std::uint32_t heap = memory.memoryTypes[i].heapIndex;
    const Taste taste = judge(kind, flags);
    const std::tuple key(taste.right, memory.memoryHeaps[heap].size, taste.nice);
    if (chosen && key <= best) continue;
    best = key;
    const bool cached{flags & vk::MemoryPropertyFlagBits::eHostCached};
    chosen = Type{i, heap, true, cached};
  }
  return chosen;
}

/// A driver without hardware compiles, but has no memory.
const MemoryPools::Type& MemoryPools::type_of(MemoryKind kind) const {
  if (const std::optional<Type>& type = types_[slot_of(kind)]) return *type;
  throw Error(ErrorCode::Unsupported, "vulkan: device \"" + core_.info.name +
                                          "\" has no memory of kind " + std::string(name(kind)));
}

std::shared_ptr<BufferState> MemoryPools::take(std::uint64_t size, MemoryKind kind,
                                               std::string_view name) {
  const std::uint64_t bound = core_.info.limits.max_allocation_size;
  if (size == 0 || size > bound) {
    throw Error(ErrorCode::InvalidArgument,
                "buffer \"" + std::string(name) + "\": expected 1 to " + std::to_string(bound) +
                    " bytes (maxMemoryAllocationSize of \"" + core_.info.name + "\"), got " +
                    std::to_string(size));
  }
  core_.driver.check_lost();
  const std::uint64_t rounded =
      std::min(size_class(size), std::max(size, bound / kGranule * kGranule));
  // Takes no permission, unlike make_driver_object(): the memory goes back to its pool, whose lock
  // others hold while they call the driver.
  std::shared_ptr<BufferState> state(new BufferState, [](const BufferState* gone) {
    foreign_calls_ended() ? keep_for_ever(gone) : delete gone;
  });
  const std::lock_guard lock(mutex_);
  trim_idle();
  state->slot = acquire({size, rounded, kind, name});
  Block& block = *state->slot.block;
  ++block.live;
  state->core = &core_;
  state->size = size;
  state->name = name;
  state->kind = kind;
  state->mapped = block.mapped == nullptr ? nullptr : block.mapped + state->slot.offset;
  state->cached = type_of(kind).cached;
  ++statistics_.allocations;
  statistics_.bytes_in_use += size;
  statistics_.bytes_padding += state->slot.size - size;
  statistics_.peak_bytes_in_use = std::max(statistics_.peak_bytes_in_use, statistics_.bytes_in_use);
  bytes_by_name_[state->name] += size;
  if (state->slot.named != state->name) {
    core_.set_name(state->slot.buffer, state->name);
    state->slot.named = state->name;
  }
  return state;
}

// Returns a pooled slot or a new one; if memory is exhausted, it frees all idle memory first.
Slot MemoryPools::acquire(const Request& request) {
  FreeList& free = free_[slot_of(request.kind)];
  const std::uint64_t most = request.rounded + request.rounded / kLooseShare;
  for (auto at = free.lower_bound(request.rounded); at != free.end() && at->first <= most; ++at) {
    if (at->second.empty()) continue;
    Slot slot = std::move(at->second.back());
    at->second.pop_back();
    ++statistics_.pool_hits;
    return slot;
  }
  try {
    return make(request.rounded, request.kind);
  } catch (const Error& error) {
    if (!is_out_of_memory(error)) throw;
  }
  trim_locked(Clock::time_point::max());
  try {
    return make(request.rounded, request.kind);
  } catch (const Error& error) {
    if (!is_out_of_memory(error)) throw;
    throw Error(error.code(), error.what() + figures(request));
  }
}

void MemoryPools::give(BufferState& state) noexcept {
  const std::lock_guard lock(mutex_);
  if (--state.slot.block->live == 0) state.slot.block->empty_since = Clock::now();
  ++statistics_.frees;
  statistics_.bytes_in_use -= state.size;
  statistics_.bytes_padding -= state.slot.size - state.size;
  const auto named = bytes_by_name_.find(state.name);
  if (named != bytes_by_name_.end()) {
    named->second -= state.size;
    if (named->second == 0) bytes_by_name_.erase(named);
  }
  // The slot came from this list, so there is capacity unless the list was trimmed; then a failed
  // allocation drops the slot at its block's next trim.
  try {
    free_[slot_of(state.kind)][state.slot.size].push_back(std::move(state.slot));
  } catch (const std::bad_alloc&) {
  }
}

std::string MemoryPools::figures(const Request& request) const {
  return ": buffer \"" + std::string(request.name) + "\" of " + std::to_string(request.size) +
         " bytes, beside " + std::to_string(statistics_.bytes_in_use) + " bytes in use and " +
         std::to_string(statistics_.bytes_reserved) + " reserved";
}

std::uint64_t MemoryPools::block_bytes(MemoryKind kind) const {
  std::uint64_t there = 0;
  for (const Block& block : blocks_[slot_of(kind)]) there += block.size;
  const std::uint64_t wanted = std::clamp(round_up(there / kBlockShare, kLeastBlockBytes),
                                          kLeastBlockBytes, kMostBlockBytes);
  return std::min(wanted, core_.info.limits.max_allocation_size);
}

Slot MemoryPools::make(std::uint64_t size, MemoryKind kind) {
  Slot slot;
  slot.buffer = core_.driver.call("vkCreateBuffer",
                                  [&] { return core_.device.createBuffer(buffer_info(size)); });
  const vk::MemoryRequirements needs = slot.buffer.getMemoryRequirements();
  slot.block = find_block(needs, kind);
  slot.offset = round_up(slot.block->used, std::max(kGranule, needs.alignment));
  slot.size = size;
  core_.driver.call("vkBindBufferMemory",
                    [&] { slot.buffer.bindMemory(*slot.block->memory, slot.offset); });
  slot.block->used = slot.offset + needs.size;
  return slot;
}

std::list<Block>::iterator MemoryPools::find_block(const vk::MemoryRequirements& needs,
                                                   MemoryKind kind) {
  std::list<Block>& blocks = blocks_[slot_of(kind)];
  const std::uint64_t step = std::max(kGranule, needs.alignment);
  const auto fits = std::ranges::find_if(blocks, [&](const Block& block) {
    return round_up(block.used, step) + needs.size <= block.size;
  });
  if (fits != blocks.end()) return fits;
  const std::uint64_t common = block_bytes(kind);
  return allocate(needs.size > common / kOwnBlockShare ? needs.size : common, kind);
}

std::list<Block>::iterator MemoryPools::allocate(std::uint64_t size, MemoryKind kind) {
  const Type& type = type_of(kind);
  check_budget(size, type.heap);
  Block block;
  block.heap = type.heap;
  block.size = size;
  block.memory = core_.driver.call("vkAllocateMemory", [&] {
    return core_.device.allocateMemory(vk::MemoryAllocateInfo(size, type.index));
  });
  if (type.mappable) {
    try {
      block.mapped = static_cast<std::byte*>(core_.driver.call(
          "vkMapMemory", [&] { return block.memory.mapMemory(0, VK_WHOLE_SIZE); }));
    } catch (const Error& error) {
      // Device memory also works unmapped: it is then written through the staging ring.
      if (kind != MemoryKind::Device || !is_out_of_memory(error)) throw;
    }
  }
  core_.set_name(block.memory, "topograd_" + std::string(name(kind)) + "_block");
  std::list<Block>& blocks = blocks_[slot_of(kind)];
  blocks.push_back(std::move(block));
  ++statistics_.driver_allocations;
  statistics_.bytes_reserved += size;
  reserved_[type.heap] += size;
  return std::prev(blocks.end());
}

// Beyond the budget some drivers silently spill to host memory and become many times slower; a
// software device promises more memory than exists, and the process is killed.
void MemoryPools::check_budget(std::uint64_t size, std::uint32_t heap) const {
  const bool known = core_.info.features.memory_budget;
  const std::uint64_t budget = memory_heaps(core_.physical, known)[heap].budget;
  if (reserved_[heap] + size <= budget) return;
  throw Error(ErrorCode::OutOfDeviceMemory,
              "vulkan: device \"" + core_.info.name + "\" lets this process use " +
                  std::to_string(budget) + " bytes of memory heap " + std::to_string(heap));
}

void MemoryPools::trim() {
  const std::lock_guard lock(mutex_);
  trim_locked(Clock::time_point::max());
}

void MemoryPools::trim_idle() {
  const Clock::time_point now = Clock::now();
  if (now < next_look_) return;
  next_look_ = now + kIdle / 40;
  trim_locked(now - kIdle);
}

void MemoryPools::trim_locked(Clock::time_point empty_before) {
  const auto goes = [&](const Block& block) {
    return block.live == 0 && block.empty_since <= empty_before;
  };
  for (std::size_t kind = 0; kind < free_.size(); ++kind) {
    for (auto& [size, slots] : free_[kind]) {
      std::erase_if(slots, [&](const Slot& slot) { return goes(*slot.block); });
    }
    std::erase_if(free_[kind], [](const auto& entry) { return entry.second.empty(); });
    for (const Block& block : blocks_[kind]) {
      if (!goes(block)) continue;
      statistics_.bytes_reserved -= block.size;
      reserved_[block.heap] -= block.size;
    }
    blocks_[kind].remove_if(goes);
  }
}

MemoryStatistics MemoryPools::statistics() {
  const std::lock_guard lock(mutex_);
  trim_idle();
  return statistics_;
}

std::map<std::string, std::uint64_t> MemoryPools::bytes_by_name() const {
  const std::lock_guard lock(mutex_);
  return bytes_by_name_;
}

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
