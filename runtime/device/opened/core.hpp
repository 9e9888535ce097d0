// Internal: the objects of an opened device, its queue and staging memory, and traffic counters.
#pragma once

#include "../../cache/disk_cache.hpp"
#include "../device.hpp"
#include "../driver/driver.hpp"
#include "../driver/features.hpp"
#include "../driver/instance.hpp"
#include "kernels.hpp"
#include "memory_pools.hpp"

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace topograd::runtime::vulkan {

class LiveTransfers;

/// One command buffer to run, the objects it keeps alive, and the buffers it touches.
struct Work {
  vk::CommandBuffer commands;
  std::shared_ptr<const void> keep;
  std::span<const std::shared_ptr<BufferState>> buffers;
  std::uint64_t first_runs = 0;  ///< of kernels that the software device compiles then
};

class Queue {
 public:
  explicit Queue(Core& core) : core_(core) {}

  void start();
  /// Submits in order with one driver call; returns the timeline value at its end.
  std::uint64_t submit(std::span<const Work> works, LiveTransfers& account);
  /// Waits for a value; see Submission::wait. The default bound is the device's own, and longer
  /// while the driver compiles.
  void wait(std::uint64_t value, double bound_seconds = 0);
  /// The value that the device has reached. Throws Error{DeviceLost}.
  std::uint64_t completed();
  std::uint64_t last() const { return last_; }
  /// Releases the objects that finished submissions kept alive.
  void reap(std::uint64_t completed);
  /// True if the device has finished all our work, or was truly lost: objects made from it may be
  /// destroyed. Asks the driver itself, past the latch and injected faults.
  bool quiet() const noexcept { return reached(last()); }
  /// The same for work submitted up to a value.
  bool reached(std::uint64_t value) const noexcept;

 private:
  struct InFlight {
    std::uint64_t value = 0;
    std::vector<std::shared_ptr<const void>> keep;
    std::uint64_t first_runs = 0;
  };

  double own_bound() const;

  Core& core_;
  vk::raii::Queue queue_{nullptr};
  vk::raii::Semaphore timeline_{nullptr};
  mutable std::mutex mutex_;
  std::atomic<std::uint64_t> last_{0};  // written under the mutex
  std::deque<InFlight> in_flight_;
};

/// A command buffer of copies between a ring and buffers.
struct Batch {
  vk::raii::CommandPool pool{nullptr};
  vk::raii::CommandBuffer commands{nullptr};
  /// Buffers of the copies; passed on with the submission.
  std::shared_ptr<std::vector<std::shared_ptr<BufferState>>> buffers;
  std::set<const BufferState*> written;  ///< since the last barrier
  bool ended = false;
  std::uint64_t value = 0;  ///< timeline value once submitted
};

/// Four segments, filled in turn; a segment is reused when its last submission has finished.
struct Ring {
  static constexpr std::uint64_t kSegmentBytes = std::uint64_t{4} << 20;
  static constexpr std::size_t kSegments = 4;

  std::shared_ptr<BufferState> memory;
  std::size_t segment = 0;
  std::uint64_t used = 0;  ///< bytes of the current segment
  std::array<std::uint64_t, kSegments> busy_until{};

  std::uint64_t offset() const { return segment * kSegmentBytes + used; }
  std::uint64_t room() const { return kSegmentBytes - used; }
};

/// Stages uploads and downloads; each call counts in the account of its handle.
class Staging {
 public:
  explicit Staging(Core& core) : core_(core) {}

  void upload(const Upload& piece, LiveTransfers& account);
  void download(std::span<const Download> pieces, LiveTransfers& account);
  /// Submits staged writes followed by `works`; returns the timeline value of the last one.
  std::uint64_t submit(std::span<const Work> works, LiveTransfers& account);

 private:
  /// A copied piece on its way to the caller's memory (readback).
  struct Readback {
    std::uint64_t offset = 0;  ///< in the readback ring
    std::span<std::byte> target;
  };

  std::uint64_t submit_locked(std::span<const Work> works, LiveTransfers& account);
  bool write_directly(const Upload& piece);
  bool read_directly(const Download& piece);
  void stage(const Upload& piece, LiveTransfers& account);
  void end(Batch& batch);
  void submitted(std::shared_ptr<Batch>& batch, std::uint64_t value);
  Batch& open_batch(LiveTransfers& account);
  std::shared_ptr<Batch> take_batch();
  void rotate_upload(LiveTransfers& account);
  void download_staged(std::span<const Download> pieces, LiveTransfers& account);
  void land(std::size_t segment);
  void finish_segment(std::shared_ptr<Batch>& batch, LiveTransfers& account);

  Core& core_;
  std::mutex mutex_;  // guards the upload side and the order of submissions
  Ring up_;
  std::shared_ptr<Batch> pending_;
  std::vector<std::shared_ptr<Batch>> idle_;
  std::mutex down_mutex_;  // guards the download side; taken before mutex_
  Ring down_;
  std::array<std::vector<Readback>, Ring::kSegments> readbacks_;
};

class Core;

/// A command pool with its one primary command buffer, a pool of descriptors and one of timestamps.
struct ListParts {
  vk::raii::CommandPool pool{nullptr};
  vk::raii::CommandBuffer commands{nullptr};
  std::optional<vk::raii::DescriptorPool> descriptors;
  std::optional<vk::raii::QueryPool> timestamps;
};

/// Making pools costs a driver more than recording a few dispatches. Thread-safe.
class SpareLists {
 public:
  explicit SpareLists(Core& core) : core_(core) {}

  /// Returns empty parts; recording has not begun.
  ListParts take();
  /// Returns parts that no work in flight uses. A limited number is kept.
  void give(ListParts parts) noexcept;

 private:
  Core& core_;
  std::mutex mutex_;
  std::vector<ListParts> spare_;
};

/// Counts of Transfers. Additions are also made to `whole`, which outlives it.
class LiveTransfers {
 public:
  explicit LiveTransfers(LiveTransfers* whole = nullptr) : whole_(whole) {}

  void add(const Transfers& more);
  Transfers read() const;

 private:
  LiveTransfers* whole_;
  std::atomic<std::uint64_t> dispatches_{0};
  std::atomic<std::uint64_t> submissions_{0};
  std::atomic<std::uint64_t> uploads_{0};
  std::atomic<std::uint64_t> bytes_up_{0};
  std::atomic<std::uint64_t> readbacks_{0};
  std::atomic<std::uint64_t> bytes_down_{0};
};

/// minImportedHostPointerAlignment; 0 without VK_EXT_external_memory_host, or if it is masked.
std::uint64_t import_alignment(const vk::raii::PhysicalDevice& physical, const Features& features);

struct ListState;

/// Live pipeline counters; see Counters.
struct LivePipelines {
  std::atomic<std::uint64_t> created{0};
  std::atomic<std::uint64_t> cache_hits{0};
  std::atomic<std::uint64_t> ns{0};
};

/// Handles share it; states (BufferState, ListState, KernelState) point to it but do not own it, so
/// that work in flight never keeps its own device alive. Members are destroyed bottom up.
class Core {
 public:
  Core(std::shared_ptr<Instance> shared_instance, vk::raii::PhysicalDevice physical_device,
       DeviceInfo device_info, DeviceOptions device_options);
  Core(const Core&) = delete;
  Core& operator=(const Core&) = delete;
  ~Core();

  template <class Handle>
  void set_name(const Handle& handle, const std::string& name) {
    using CType = typename Handle::CType;
    set_name(Handle::objectType, reinterpret_cast<std::uint64_t>(static_cast<CType>(*handle)),
             name);
  }

  const DeviceOptions options;
  const DeviceInfo info;
  const std::shared_ptr<Instance> instance;
  const vk::raii::PhysicalDevice physical;
  std::uint32_t family = 0;
  std::uint32_t timestamp_bits = 0;
  LiveTransfers transfers;  ///< of all handles
  LivePipelines pipelines;
  Driver driver;
  vk::raii::Device device{nullptr};
  DiskCache disk_cache;
  MemoryPools memory;
  Kernels kernels;
  Staging staging;
  SpareLists spare_lists;
  Queue queue;

 private:
  void create_device();
  void set_name(vk::ObjectType type, std::uint64_t handle, const std::string& name);
};

/// Cache options for a device's blobs.
DiskCacheOptions disk_cache_options(const DeviceOptions& options, const DeviceInfo& info);

/// Descriptor sets per pool of a list.
inline constexpr std::uint32_t kSetsPerPool = 64;
inline constexpr std::uint32_t kDescriptorsPerPool = 512;

/// Timestamps of a list: one at its begin and one after each of its commands, so that their
/// differences add up to the time of the list.
struct ProfileStamps {
  std::vector<vk::raii::QueryPool> pools;
  std::uint32_t count = 0;  ///< of timestamps
  struct Work {
    std::string name, topology;
    friend bool operator==(const Work&, const Work&) = default;
  };
  std::vector<Work> works;  ///< different ones
  struct Command {
    std::uint32_t work = 0;  ///< of `works`
    std::uint64_t bytes = 0;
  };
  std::vector<Command> commands;
  std::optional<Work> next;  ///< names the next dispatch
  std::uint64_t next_bytes = 0;
  std::uint64_t rows_of = 0;        ///< the profile to which `rows` belong
  std::vector<std::uint32_t> rows;  ///< of `works`

  static constexpr std::uint32_t kPerPool = 256;
  /// Records a timestamp.
  void stamp(ListState& list);
  /// Records one after a command.
  void after(ListState& list, Work work, std::uint64_t bytes);
};

/// Recorded state of a command list.
struct ListState {
  Core* core = nullptr;
  std::string name;
  ListState() = default;
  ListState(const ListState&) = delete;
  ListState& operator=(const ListState&) = delete;
  ~ListState();

  vk::raii::CommandPool pool{nullptr};
  vk::raii::CommandBuffer commands{nullptr};
  struct Descriptors {
    std::vector<vk::raii::DescriptorPool> pools;
    std::uint32_t sets_left = 0;                          ///< of the last pool
    std::uint32_t descriptors_left = 0;                   ///< of the last pool
    std::unordered_map<Hash128, vk::DescriptorSet> sets;  ///< by what they bind
  };
  Descriptors descriptors;
  struct Timestamps {
    std::vector<vk::raii::QueryPool> pools;
    std::optional<vk::raii::QueryPool> spare_pool;  ///< of an earlier list; not used yet
    std::vector<std::string> labels;
  };
  Timestamps timestamps;
  std::unique_ptr<ProfileStamps> profile;  ///< null: the list takes no times of its commands
  std::vector<std::shared_ptr<BufferState>> buffers;
  std::unordered_set<const BufferState*> used;  ///< of `buffers`
  const KernelState* bound_kernel = nullptr;
  vk::DescriptorSet bound_set;
  int open_labels = 0;
  struct Conditional {
    bool is_open = false;
    const Buffer* counts = nullptr;  ///< null: only note workgroups
    std::vector<Groups> groups;      ///< of the dispatches
  };
  Conditional conditional;
  bool ended = false;
  Transfers transfers;           ///< of each submission
  std::uint64_t first_runs = 0;  ///< of kernels that no list had recorded before (KernelState)
  std::atomic<std::uint64_t> last_value{0};  ///< timeline value of the latest submission
};

/// Makes a command pool with one primary command buffer; recording has not begun.
std::pair<vk::raii::CommandPool, vk::raii::CommandBuffer> make_commands(Core& core);

/// Makes a list and begins recording. It takes times of its commands if this thread uses a Profile.
std::shared_ptr<ListState> make_list(Core& core, std::string_view name);
/// The timestamps of one run of a list, on their way to the host.
struct StampsRead {
  std::shared_ptr<ListState> of;      ///< the list
  std::shared_ptr<ListState> copies;  ///< another one, which runs after it
  std::shared_ptr<BufferState> ticks;
};
StampsRead record_stamps_read(Core& core, const std::shared_ptr<ListState>& list);
/// Ends recording if it has not ended.
void end_list(ListState& list);

/// Orders everything before (in the queue) before everything after, including memory.
void record_barrier(const vk::raii::CommandBuffer& commands);
/// Like record_barrier(), also for workgroup counts that later commands read in their front end.
void record_indirect_barrier(const vk::raii::CommandBuffer& commands);
/// Makes everything written visible to the host after the submission has finished.
void record_host_barrier(const vk::raii::CommandBuffer& commands);

/// Throws Error{InvalidArgument} unless [offset, offset + size) is in the buffer.
void check_range(const char* call, const BufferState& buffer, std::uint64_t offset,
                 std::uint64_t size);
/// Returns the state of a buffer of this device. Throws Error{InvalidArgument} for any other
/// buffer.
const std::shared_ptr<BufferState>& checked_state(const char* call, const Core& core,
                                                  const Buffer* buffer);

/// VkPhysicalDeviceCooperativeMatrixFeaturesKHR.
struct KhrMatrixFeatures {
  static constexpr const char* kExtension = "VK_KHR_cooperative_matrix";

  VkStructureType sType = static_cast<VkStructureType>(1000506000);
  void* pNext = nullptr;
  VkBool32 cooperativeMatrix = VK_FALSE;
  VkBool32 cooperativeMatrixRobustBufferAccess = VK_FALSE;
};

/// has_khr_matrices() of a device that is not open.
bool has_khr_matrices(const vk::raii::PhysicalDevice& physical, const Features& features,
                      const DeviceOptions& options);

// Software devices compile kernels on their own threads at the first run. The compiler creates
// static objects meanwhile, which exit() destroys in the opposite order.

/// Makes this thread wait for such compilers when it ends: it may be the one that ends the process,
/// and thread-local objects are destroyed before all static objects.
void outlive_driver_compiler();
/// Call after a driver has compiled: devices then end before its compiler's static objects.
void note_driver_compiled();

/// Makes a software device compile and run a kernel that no cache has. Its compiler creates static
/// objects meanwhile, on a thread of the driver: keep a LoadingLibraries alive during the call.
///
/// Failures are ignored: the next driver call reports them again.
void compile_first(const Core& core);

}  // namespace topograd::runtime::vulkan
