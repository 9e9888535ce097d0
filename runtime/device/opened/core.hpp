// Internal: the objects of an opened device, and its traffic counters.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "../../cache/disk_cache.hpp"
#include "../device.hpp"
#include "../driver/driver.hpp"
#include "../driver/features.hpp"
#include "../driver/instance.hpp"
#include "kernels.hpp"
#include "memory_pools.hpp"
#include "queue.hpp"
#include "staging.hpp"

namespace topograd::runtime::vulkan {

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

/// True if a device with VK_NV_cooperative_matrix also has the KHR extension, with products of 16 x
/// 16 matrices of f16 and sums of f32. False under the validation layer, which is as old as the
/// headers and refuses such modules.
bool has_khr_matrices(const vk::raii::PhysicalDevice& physical, const Features& features,
                      const DeviceOptions& options);
bool has_khr_matrices(const Device& device);

}  // namespace topograd::runtime::vulkan
