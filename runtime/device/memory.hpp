// Device buffers from pooled memory, and the figures of the pools.
#pragma once

#include "../../ir/enum_table.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace topograd::runtime::vulkan {

class Core;
struct BufferState;

/// Location of a buffer by its main user.
enum class MemoryKind {
  Device,    ///< fastest for shaders; mapped only if the driver has such memory
  Upload,    ///< written by the host, read by the device: coherent, always mapped
  Readback,  ///< written by the device, read by the host: coherent, cached, always mapped
};
TG_ENUM_NAMES(MemoryKind)

/// A storage, transfer and indirect buffer. Move-only; destruction returns its memory to the pool.
///
/// Contents start undefined (memory is reused). A command list and a submission that use the buffer
/// keep its memory alive, so a Buffer may be destroyed at any time, on any thread.
class Buffer {
 public:
  Buffer() = default;
  Buffer(std::shared_ptr<Core> core, std::shared_ptr<BufferState> state);
  Buffer(Buffer&&) noexcept = default;
  Buffer& operator=(Buffer&& other) noexcept;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer();

  explicit operator bool() const { return state_ != nullptr; }
  /// Requested size in bytes.
  std::uint64_t size() const;
  const std::string& name() const;
  MemoryKind kind() const;
  /// Host address of the first byte, or null. Kind Device may be mapped too (software devices,
  /// resizable BAR): then host writes must not race with submissions that use the buffer.
  std::byte* mapped() const;
  /// True if reads through mapped() are fast (cached memory).
  bool cached() const;

  const std::shared_ptr<BufferState>& state() const { return state_; }

 private:
  std::shared_ptr<Core> core_;
  std::shared_ptr<BufferState> state_;
};

/// Statistics of a device's memory pools since it was opened; bytes_* are current.
struct MemoryStatistics {
  std::uint64_t allocations = 0;         ///< buffers handed out
  std::uint64_t frees = 0;               ///< buffers returned
  std::uint64_t pool_hits = 0;           ///< allocations served without any driver call
  std::uint64_t driver_allocations = 0;  ///< vkAllocateMemory calls
  std::uint64_t bytes_in_use = 0;        ///< requested by live buffers
  std::uint64_t bytes_padding = 0;       ///< live buffers' class sizes minus requested sizes
  std::uint64_t bytes_reserved = 0;      ///< taken from the driver, in use or pooled
  std::uint64_t peak_bytes_in_use = 0;
};

}  // namespace topograd::runtime::vulkan
