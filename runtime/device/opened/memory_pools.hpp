// Internal: size-class pools of VkBuffers over large blocks of device memory.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "../device.hpp"
#include "../driver/driver.hpp"

namespace topograd::runtime::vulkan {

/// One VkDeviceMemory. Slots are taken from its front, never merged; an empty block can be trimmed.
struct Block {
  vk::raii::DeviceMemory memory{nullptr};
  std::uint32_t heap = 0;
  std::uint64_t size = 0;
  std::uint64_t used = 0;                               ///< bytes cut off so far
  std::uint32_t live = 0;                               ///< slots that buffers hold
  std::chrono::steady_clock::time_point empty_since{};  ///< while live is 0
  std::byte* mapped = nullptr;
};

/// A VkBuffer bound to its offset in a block; the unit of recycling.
struct Slot {
  vk::raii::Buffer buffer{nullptr};
  std::list<Block>::iterator block;
  std::uint64_t offset = 0;
  std::uint64_t size = 0;  ///< the class size
  std::string named;       ///< name in the driver
};

/// State of a Buffer. Destroyed when no Buffer, list or submission uses it.
struct BufferState {
  /// last_use of a buffer with a staged write that is not submitted yet.
  static constexpr std::uint64_t kPending = ~std::uint64_t{0};

  Core* core = nullptr;
  Slot slot;
  std::uint64_t size = 0;
  std::string name;
  MemoryKind kind = MemoryKind::Device;
  std::byte* mapped = nullptr;
  bool cached = false;
  std::atomic<std::uint64_t> last_use{0};  ///< timeline value of the latest submission

  BufferState() = default;
  BufferState(const BufferState&) = delete;
  BufferState& operator=(const BufferState&) = delete;
  ~BufferState();
};

/// Rounds a size up to its class: multiples of 256 bytes, 32 classes per octave, with little waste.
std::uint64_t size_class(std::uint64_t size);

/// Free slots wait for the next buffer of their size. Blocks unused for kIdle are returned to the
/// driver, when a buffer is next taken or figures are read.
class MemoryPools {
 public:
  static constexpr std::chrono::seconds kIdle{2};

  explicit MemoryPools(Core& core) : core_(core) {}

  /// Chooses the memory types; call once, after the device was made.
  void start();
  std::shared_ptr<BufferState> take(std::uint64_t size, MemoryKind kind, std::string_view name);
  void give(BufferState& state) noexcept;
  void trim();
  MemoryStatistics statistics();
  std::map<std::string, std::uint64_t> bytes_by_name() const;

 private:
  struct Type {
    std::uint32_t index = 0;
    std::uint32_t heap = 0;
    bool mappable = false;
    bool cached = false;
  };
  struct Request {
    std::uint64_t size = 0;     ///< as requested
    std::uint64_t rounded = 0;  ///< the class size
    MemoryKind kind = MemoryKind::Device;
    std::string_view name;
  };
  using FreeList = std::map<std::uint64_t, std::vector<Slot>>;

  std::optional<Type> choose(MemoryKind kind, std::uint32_t allowed) const;
  const Type& type_of(MemoryKind kind) const;
  std::uint64_t block_bytes(MemoryKind kind) const;
  Slot acquire(const Request& request);
  Slot make(std::uint64_t size, MemoryKind kind);
  std::list<Block>::iterator find_block(const vk::MemoryRequirements& needs, MemoryKind kind);
  std::list<Block>::iterator allocate(std::uint64_t size, MemoryKind kind);
  void check_budget(std::uint64_t size, std::uint32_t heap) const;
  void trim_locked(std::chrono::steady_clock::time_point empty_before);
  void trim_idle();
  std::string figures(const Request& request) const;

  Core& core_;
  mutable std::mutex mutex_;
  std::array<std::optional<Type>, 3> types_;  // empty: the device has no such memory
  std::array<std::list<Block>, 3> blocks_;
  std::array<FreeList, 3> free_;
  std::array<std::uint64_t, VK_MAX_MEMORY_HEAPS> reserved_{};  ///< bytes of each heap
  MemoryStatistics statistics_;
  std::chrono::steady_clock::time_point next_look_{};  ///< for idle blocks
  std::map<std::string, std::uint64_t> bytes_by_name_;
};

}  // namespace topograd::runtime::vulkan
