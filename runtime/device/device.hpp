// A compute device: buffers, kernels, command lists, submissions, and imported host memory.
#pragma once

#include "command.hpp"
#include "driver/device_info.hpp"
#include "driver/features.hpp"
#include "kernel.hpp"
#include "memory.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace topograd::runtime {
class DiskCache;
}

namespace topograd::runtime::vulkan {

/// Traffic to and from a device.
struct Transfers {
  std::uint64_t dispatches = 0;   ///< of submitted lists, at each submission
  std::uint64_t submissions = 0;  ///< vkQueueSubmit calls, staging included
  std::uint64_t uploads = 0;      ///< upload calls and copies from buffers of kind Upload
  std::uint64_t bytes_up = 0;
  std::uint64_t readbacks = 0;  ///< download calls and copies into buffers of kind Readback
  std::uint64_t bytes_down = 0;
};

/// Totals since a device was opened. Subtract two readings for an interval.
struct Counters : Transfers {
  std::uint64_t pipelines_created = 0;
  std::uint64_t pipeline_cache_hits = 0;  ///< kernels found in memory
  std::uint64_t driver_allocations = 0;   ///< vkAllocateMemory calls
  double pipeline_ms = 0;                 ///< wall time spent making pipelines

  Counters operator-(const Counters& earlier) const;
};

class LiveTransfers;

/// One piece of a batched upload or download.
struct Upload {
  const Buffer* buffer = nullptr;
  std::uint64_t offset = 0;  ///< bytes
  std::span<const std::byte> bytes;
};
struct Download {
  const Buffer* buffer = nullptr;
  std::uint64_t offset = 0;  ///< bytes
  std::span<std::byte> bytes;
};

/// A point in a device's queue. Cheap to copy; a default one is always done.
class Submission {
 public:
  Submission() = default;
  Submission(std::shared_ptr<Core> core, std::uint64_t value);
  /// Waits until everything up to this submission has finished.
  ///
  /// Throws Error{Timeout} if nothing on the device finishes for `timeout_seconds` (0: the device's
  /// own bound, plus time for the software device to compile new kernels) and Error{DeviceLost} if
  /// the device is gone. May be called again after a timeout.
  void wait(double timeout_seconds = 0) const;
  /// True if finished; does not wait. Throws Error{DeviceLost}.
  bool done() const;

 private:
  std::shared_ptr<Core> core_;
  std::uint64_t value_ = 0;
};

/// An opened device. All members may be called from any thread. Everything made from a device keeps
/// it alive. After a device loss every call throws Error{DeviceLost}; open() then makes a new one.
class Device {
 public:
  /// A second handle on a device (core()), with its own transfers().
  explicit Device(std::shared_ptr<Core> core);

  const DeviceInfo& info() const;
  const Features& features() const { return info().features; }
  const Limits& limits() const { return info().limits; }
  const DeviceOptions& options() const;
  bool lost() const;

  /// Takes a buffer from the pool. Memory of destroyed buffers stays there for two seconds.
  ///
  ///   size  bytes, > 0
  ///
  /// Throws Error{OutOfDeviceMemory}, Error{OutOfHostMemory}, or Error{InvalidArgument} if size is
  /// 0 or over Limits::max_allocation_size. Cost: no driver call if the pool has a fitting one.
  Buffer buffer(std::uint64_t size, MemoryKind kind = MemoryKind::Device,
                std::string_view name = {});
  /// Returns unused pooled memory to the driver.
  void trim();
  MemoryStatistics memory() const;
  /// Requested bytes of live buffers, by name.
  std::map<std::string, std::uint64_t> memory_by_name() const;

  /// Makes a pipeline, or returns one with equal content.
  ///
  /// Throws Error{InvalidArgument} if counts exceed the device's limits, Error{Unsupported} if the
  /// driver refuses the module.
  Kernel kernel(const KernelDesc& desc);

  CommandList command_list(std::string_view name = {});
  /// Queues a list after all earlier submissions; does not wait.
  Submission submit(const CommandList& list);
  /// Queues lists, in order, as one submission; a list may occur more than once.
  Submission submit(std::span<const CommandList* const> lists);
  /// Waits until all submissions have finished; bounded as Submission::wait.
  void wait_idle();

  /// Writes bytes into buffers, after all earlier submissions that use them and before all later
  /// ones. Waits only if the staging ring is full; the bytes are read before it returns.
  void upload(const Buffer& buffer, std::uint64_t offset, std::span<const std::byte> bytes);
  void upload(std::span<const Upload> uploads);
  /// Reads bytes from buffers after all earlier submissions; waits. A batch makes one submission
  /// per staging ring of bytes.
  void download(const Buffer& buffer, std::uint64_t offset, std::span<std::byte> bytes);
  void download(std::span<const Download> downloads);

  template <class T>
  void upload(const Buffer& buffer, std::span<const T> values, std::uint64_t offset = 0) {
    upload(buffer, offset, std::as_bytes(values));
  }
  template <class T>
  void download(const Buffer& buffer, std::span<T> values, std::uint64_t offset = 0) {
    download(buffer, offset, std::as_writable_bytes(values));
  }

  /// Counts of all handles on the device.
  Counters counters() const;
  /// Counts of calls through this handle. Staged bytes travel with the next submission and count
  /// for the handle that makes it.
  Transfers transfers() const;

  /// Blob cache of this device's identity, e.g. for SPIR-V.
  DiskCache& disk_cache();
  /// Writes the driver's pipeline cache to disk if it has grown. Also done now and then, and at
  /// exit.
  void save_pipeline_cache();

  /// Test hook: lets `after` driver calls named `call` (empty: any) pass, then makes `times` of
  /// them fail with `result` (a VkResult) without reaching the driver. 0 times disarms it.
  void inject_fault(std::string_view call, std::uint64_t after, std::int32_t result,
                    std::uint32_t times = 1);
  /// Number of driver calls on the checked path, to place inject_fault().
  std::uint64_t driver_calls() const;

  const std::shared_ptr<Core>& core() const { return core_; }

 private:
  std::shared_ptr<Core> core_;
  std::shared_ptr<LiveTransfers> transfers_;
};

/// Lists the Vulkan devices, with masks and overrides of the options applied.
///
/// Throws Error{NoLoader} if libvulkan cannot be opened (the message lists the names tried and the
/// package to install), Error{NoDriver} if it knows no driver, Error{InvalidArgument} for a bad
/// mask.
std::vector<DeviceInfo> devices(const DeviceOptions& options = {});

/// Opens a device, or returns the open one for equal options. Calls are serialised.
///
/// Throws the errors of devices() and choose_device().
std::shared_ptr<Device> open(const DeviceOptions& options = {});

/// Releases the device that open() keeps for the next caller; other handles stay valid.
void release_devices();

/// True if compute shaders have subgroupBallot() and subgroupShuffle(); false if masked.
bool has_subgroup_shuffle(const Device& device);

/// Alignment in bytes of imported memory and its size; 0: no import. Masked with mapped_memory.
std::uint64_t host_import_alignment(const Device& device);

/// Makes a buffer of this memory without copies: mapped() is its first byte. The memory must
/// outlive the buffer and all queued work that uses it; the host may touch it only while no queued
/// work does.
///
/// Returns nothing if the device does not import memory, or the memory is not whole pages.
std::optional<Buffer> import_host_memory(Device& device, std::span<std::byte> memory,
                                         std::string_view name);

}  // namespace topograd::runtime::vulkan
