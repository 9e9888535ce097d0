// A compute device: buffers, kernels, command lists, submissions, and imported host memory.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "../../ir/enum_table.hpp"
#include "../kernel_listing.hpp"
#include "driver/device_info.hpp"
#include "driver/features.hpp"

namespace topograd::runtime::vulkan {

class Core;
struct KernelState;

struct SpecializationConstant {
  std::uint32_t id = 0;
  std::uint32_t value = 0;  ///< bits of a 32-bit constant
};

/// Content of a kernel. Entry point "main"; storage buffers are set 0, bindings 0 ..
/// storage_buffers - 1; push constants start at byte 0.
struct KernelDesc {
  std::span<const std::uint32_t> spirv;  ///< words; copied
  std::string name;                      ///< for profilers and messages
  std::uint32_t storage_buffers = 0;
  std::uint32_t push_constant_bytes = 0;  ///< a multiple of 4
  std::vector<SpecializationConstant> constants;
  /// Workgroup size that the module declares, after specialisation; checked against the limits.
  std::array<std::uint32_t, 3> local_size = {1, 1, 1};
};

/// Handle to a pipeline. Cheap to copy; the device keeps one pipeline per content (everything in
/// KernelDesc except the name) for its lifetime. Made by Device::kernel.
class Kernel {
 public:
  Kernel() = default;
  Kernel(std::shared_ptr<Core> core, const KernelState* state);

  explicit operator bool() const { return core_ != nullptr; }
  const std::string& name() const;
  std::uint32_t storage_buffers() const;
  std::uint32_t push_constant_bytes() const;
  std::array<std::uint32_t, 3> local_size() const;
  /// Wall time of the driver to make the pipeline, in milliseconds. The software device compiles at
  /// the first dispatch instead.
  double creation_ms() const;

  /// The driver's figures of the compiled code; empty without
  /// Features::pipeline_executable_properties. Cost: some driver calls.
  KernelFigures figures() const;

  const KernelState& state() const { return *state_; }

 private:
  std::shared_ptr<Core> core_;
  const KernelState* state_ = nullptr;  // owned by core_, for its lifetime
};

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
  /// True if the host reads it in place, and as fast as its own memory: mapped and cached.
  bool readable() const;

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

struct ListState;
class DeclaredKernels;

/// A range of a buffer for one binding of a kernel.
struct Binding {
  const Buffer* buffer = nullptr;
  std::uint64_t offset = 0;  ///< bytes, a multiple of Limits::storage_buffer_offset_alignment
  std::uint64_t size = 0;    ///< bytes; 0 means up to the end of the buffer
};

/// Workgroups of a dispatch.
struct Groups {
  std::uint32_t x = 1;
  std::uint32_t y = 1;
  std::uint32_t z = 1;
};

/// Time at which all commands recorded before the label had finished.
struct Timestamp {
  std::string label;
  double microseconds = 0;  ///< since the list's first timestamp
};

/// A sequence of dispatches, copies and barriers. Made by Device::command_list; the first
/// submission ends recording. One thread at a time. Keeps the objects it uses alive.
///
/// Submissions of one device run in order: everything that earlier submissions wrote is visible to
/// the first command, and everything written is visible to the host after Submission::wait. Inside
/// a list only barrier() orders commands.
///
/// A list that declares is no list of a device: whoever records to it adds the kernels that it
/// would run, and nothing else. Its commands do nothing, and buffers may be null.
class CommandList {
 public:
  CommandList() = default;
  /// A list that declares. `kernels` outlives it.
  explicit CommandList(DeclaredKernels& kernels) : declared_(&kernels) {}
  CommandList(std::shared_ptr<Core> core, std::shared_ptr<ListState> state);
  CommandList(CommandList&&) noexcept = default;
  CommandList& operator=(CommandList&& other) noexcept;
  CommandList(const CommandList&) = delete;
  CommandList& operator=(const CommandList&) = delete;
  ~CommandList();

  /// Runs a kernel.
  ///
  ///   bindings  one per storage buffer of the kernel, in order of binding
  ///   push      exactly the kernel's push_constant_bytes
  ///   groups    workgroups, 1 <= x, y, z <= Limits::max_workgroups_*
  ///
  /// Throws Error{InvalidArgument} if a count, alignment or range does not fit; the message names
  /// the kernel and binding.
  void dispatch(const Kernel& kernel, std::span<const Binding> bindings,
                std::span<const std::byte> push, Groups groups);
  void dispatch(const Kernel& kernel, std::span<const Binding> bindings,
                std::span<const std::byte> push, std::uint32_t groups_x, std::uint32_t groups_y = 1,
                std::uint32_t groups_z = 1) {
    dispatch(kernel, bindings, push, Groups{groups_x, groups_y, groups_z});
  }

  /// Like dispatch(), with the three uint32 group counts read from `counts` at `offset` (bytes, a
  /// multiple of 4) when the command runs. Counts over the limits are undefined behaviour. Starts
  /// with a barrier.
  void dispatch_indirect(const Kernel& kernel, std::span<const Binding> bindings,
                         std::span<const std::byte> push, const Buffer& counts,
                         std::uint64_t offset);

  /// Starts conditional dispatches, with a barrier. Dispatches up to close_conditional() read their
  /// workgroups from `counts` when they run, three uint32 each in order; 0 skips a dispatch. Only
  /// dispatches and barriers may be recorded in between. Without `counts` nothing is recorded, but
  /// the workgroups are noted.
  void open_conditional(const Buffer* counts);
  /// Ends them and returns the workgroups with which they were recorded.
  std::vector<Groups> close_conditional();
  bool in_conditional() const;

  /// Orders all earlier dispatches, copies and fills, and their memory, before all later ones.
  void barrier();

  /// Copies `size` bytes; the ranges must not overlap.
  void copy(const Buffer& source, std::uint64_t source_offset, const Buffer& target,
            std::uint64_t target_offset, std::uint64_t size);

  /// Writes `value` into each 32-bit word of a range; offset and size (bytes) are multiples of 4.
  void fill(const Buffer& target, std::uint64_t offset, std::uint64_t size, std::uint32_t value);

  /// Records a timestamp; no effect on devices without them (Features::timestamps).
  void write_timestamp(std::string_view label);

  /// Marks a group of commands for profilers and validation messages.
  void begin_label(std::string_view label);
  void end_label();

  /// True if the list was made by a thread with a Profile, on a device with timestamps: it takes
  /// the time of each of its commands.
  bool takes_times() const;
  /// Says what a profile calls the next dispatch, instead of the kernel's name, and how many bytes
  /// it moves; no effect on lists that take no times.
  void name_next(std::string_view name, std::string_view topology, std::uint64_t bytes);

  /// Receives the kernels of a list that declares them; null if the list records.
  DeclaredKernels* declared() const { return declared_; }

  /// Dispatches recorded so far.
  std::uint64_t dispatches() const;

  /// The timestamps of the latest submission, in order of recording; waits for it (bounded).
  /// Empty if there are none or nothing was submitted.
  std::vector<Timestamp> timestamps() const;

  explicit operator bool() const { return state_ != nullptr; }
  const std::shared_ptr<ListState>& state() const { return state_; }

 private:
  std::shared_ptr<Core> core_;
  std::shared_ptr<ListState> state_;
  DeclaredKernels* declared_ = nullptr;
  bool declares_conditional_ = false;  // between open_conditional() and close_conditional()
};

/// Push constants from a trivially copyable struct.
template <class T>
std::span<const std::byte> push_bytes(const T& value) {
  return std::as_bytes(std::span<const T, 1>(&value, 1));
}

}  // namespace topograd::runtime::vulkan

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

/// Returns the open device for equal options, or null.
std::shared_ptr<Device> find_open(const DeviceOptions& options);

/// Releases the device that open() keeps for the next caller; other handles stay valid.
void release_devices();

/// True if compute shaders have subgroupBallot() and subgroupShuffle(); false if masked.
bool has_subgroup_shuffle(const Device& device);

/// True if a device with VK_NV_cooperative_matrix also has the KHR extension, with products of 16 x
/// 16 matrices of f16 and sums of f32. False under the validation layer, which is as old as the
/// headers and refuses such modules.
bool has_khr_matrices(const Device& device);

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
