// Tasks on a device: their kernels, arrays that stay there, and the queue.
#include "hybrid_backend.hpp"

#include "../../../ir/machine/foreign_call.hpp"
#include "../../../ir/machine/platform.hpp"
#include "../../cache/content_hash.hpp"
#include "../../device/check/self_check.hpp"
#include "../../device/command_stream.hpp"
#include "../../device/device.hpp"
#include "../../device/driver/instance.hpp"
#include "../../device/kernels/kernel_cache.hpp"
#include "../../device/opened/core.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <set>
#include <utility>

namespace topograd::runtime::vulkan {
namespace {

/// Buffers by key and version, least recently used first. Not thread-safe.
class ResidentArrays {
 public:
  /// Keeps at most this many bytes from now on and evicts the rest.
  void limit(std::uint64_t bytes) {
    bound_ = bytes;
    trim();
  }
  /// Returns the buffer under this key if it has this version and size.
  std::shared_ptr<Buffer> find(std::uint64_t key, std::uint64_t version, std::uint64_t bytes) {
    const auto found = std::ranges::find(entries_, key, &Entry::key);
    if (found == entries_.end() || found->version != version || found->buffer->size() != bytes)
      return nullptr;
    entries_.splice(entries_.end(), entries_, found);
    return found->buffer;
  }
  void put(std::uint64_t key, std::uint64_t version, std::shared_ptr<Buffer> buffer) {
    std::erase_if(entries_, [&](const Entry& entry) { return entry.key == key; });
    entries_.push_back({key, version, std::move(buffer)});
    trim();
  }
  void clear() { entries_.clear(); }
  bool empty() const { return entries_.empty(); }
  std::uint64_t bytes() const {
    std::uint64_t sum = 0;
    for (const Entry& entry : entries_) sum += entry.buffer->size();
    return sum;
  }

 private:
  struct Entry {
    std::uint64_t key, version;
    std::shared_ptr<Buffer> buffer;
  };
  void trim() {
    std::uint64_t sum = bytes();
    for (; sum > bound_; entries_.pop_front()) sum -= entries_.front().buffer->size();
  }
  std::uint64_t bound_ = 0;
  std::list<Entry> entries_;
};

using hybrid::DeviceArray;
using hybrid::DeviceProgram;
using hybrid::RunReport;
using Time = std::chrono::steady_clock::time_point;

double microseconds(Time from, Time to) {
  return std::chrono::duration<double, std::micro>(to - from).count();
}

/// Appends pieces as they are laid out in one buffer.
template <class Transfer, class Piece>
void append(std::vector<Transfer>& out, const Buffer& buffer, const std::vector<Piece>& pieces) {
  std::uint64_t offset = 0;
  for (const Piece& piece : pieces) {
    if (!piece.empty()) out.push_back({&buffer, offset, piece});
    offset += piece.size();
  }
}

class VulkanTaskBackend final : public hybrid::DeviceBackend {
 public:
  explicit VulkanTaskBackend(const DeviceOptions& options)
      : options_(options),
        device_(open(options)),
        kernels_(kernel_cache(device_)),
        info_(device_->info()) {}
  VulkanTaskBackend(const DeviceOptions& options, DeviceInfo info)
      : options_(options), info_(std::move(info)) {}

  hybrid::Capabilities capabilities() const override { return facts_of(info_); }

  RunReport run(const DeviceProgram& program) override;
  void prepare(const DeviceProgram& program) override;
  void limit_resident(std::uint64_t bytes) override;
  std::uint64_t resident(const DeviceProgram& program) const override;
  std::optional<std::uint64_t> free_bytes() const override;
  std::vector<hybrid::Figure> figures() const override;
  void reopen() override;

 private:
  std::shared_ptr<Device> device() const {
    const ForeignCall permission("open");
    const std::lock_guard lock(mutex_);
    if (!device_) {
      device_ = open(options_);
      kernels_ = kernel_cache(device_);
    }
    return device_;
  }
  /// The open device, whoever opened it, or null.
  std::shared_ptr<Device> opened() const {
    const std::lock_guard lock(mutex_);
    return device_ ? device_ : find_open(options_);
  }
  RunReport run_once(const DeviceProgram& program);
  bool let_go_of_residents();
  Kernel compiled(const std::shared_ptr<Device>& device, const DeviceProgram& program,
                  RunReport& report);
  std::vector<std::shared_ptr<Buffer>> buffers(Device& device, const DeviceProgram& program,
                                               std::vector<Upload>& uploads, RunReport& report);
  static void record(CommandList& list, const Limits& limits, const Kernel& kernel,
                     const DeviceProgram& program,
                     std::span<const std::shared_ptr<Buffer>> buffers);
  void split_times(double submitted, double on_device, RunReport& report);

  const DeviceOptions options_;
  mutable std::mutex mutex_;
  mutable std::shared_ptr<Device> device_;
  mutable std::shared_ptr<KernelCache> kernels_;  // keeps those of device_
  const DeviceInfo info_;
  mutable ResidentArrays residents_;
  double least_submit_us_ = 1e9;  // of submissions without preceding uploads
  CompileAccount compiled_;
};

Kernel VulkanTaskBackend::compiled(const std::shared_ptr<Device>& device,
                                   const DeviceProgram& program, RunReport& report) {
  Hash128 key = hash_text(program.glsl);
  key.add(2);  // compiled without changes, unlike the solver's kernels and array operations
  const StoredKernel made = kernel_cache(device)->kernel(
      {.name = program.name,
       .glsl = program.glsl,
       .key = key,
       .storage_buffers = static_cast<std::uint32_t>(program.arrays.size()),
       .push_constant_bytes = static_cast<std::uint32_t>(8 + program.constants.size())},
      compiled_);
  if (made.origin == Origin::memory) {
    ++report.cache_hits;
  } else {
    report.cold = true;
  }
  return made.kernel;
}

/// Returns a buffer for each array; adds missing data to `uploads`.
std::vector<std::shared_ptr<Buffer>> VulkanTaskBackend::buffers(Device& device,
                                                                const DeviceProgram& program,
                                                                std::vector<Upload>& uploads,
                                                                RunReport& report) {
  std::vector<std::shared_ptr<Buffer>> out;
  for (const DeviceArray& array : program.arrays) {
    const std::uint64_t bytes = array.bytes();
    if (bytes > device.limits().max_storage_buffer_range) {
      throw Error(ErrorCode::OutOfDeviceMemory,
                  program.name + ": an array of " + std::to_string(bytes) +
                      " bytes is over the device's limit of " +
                      std::to_string(device.limits().max_storage_buffer_range));
    }
    std::shared_ptr<Buffer> buffer;
    if (array.key != 0) {
      const std::lock_guard lock(mutex_);
      buffer = residents_.find(array.key, array.version, bytes);
    }
    if (buffer) {
      ++report.cache_hits;
    } else {
      buffer = std::make_shared<Buffer>(
          device.buffer(std::max<std::uint64_t>(bytes, 4), MemoryKind::Device, program.name));
      append(uploads, *buffer, array.read);
    }
    out.push_back(std::move(buffer));
  }
  return out;
}

void VulkanTaskBackend::record(CommandList& list, const Limits& limits, const Kernel& kernel,
                               const DeviceProgram& program,
                               std::span<const std::shared_ptr<Buffer>> buffers) {
  std::vector<Binding> bindings;
  for (const auto& buffer : buffers) bindings.push_back({buffer.get()});
  const std::uint32_t size = kernel.local_size()[0];
  const std::uint64_t most = std::uint64_t{limits.max_workgroups_x} * size;
  stamped(list, [&] {
    for (std::uint64_t first = 0; first < program.items; first += most) {
      const std::uint64_t count = std::min(most, program.items - first);
      const std::uint32_t words[] = {static_cast<std::uint32_t>(first),
                                     static_cast<std::uint32_t>(program.items)};
      std::vector<std::byte> push(sizeof words + program.constants.size());
      std::ranges::copy(std::as_bytes(std::span(words)), push.begin());
      std::ranges::copy(program.constants, push.begin() + sizeof words);
      list.dispatch(kernel, bindings, push, static_cast<std::uint32_t>((count + size - 1) / size));
    }
  });
}

/// Attributes time from submission to completion beyond the kernel's and the usual overhead to the
/// uploads, which were queued before it.
void VulkanTaskBackend::split_times(double submitted, double on_device, RunReport& report) {
  report.times.kernel = on_device > 0 ? std::min(on_device, submitted) : submitted;
  const double rest = submitted - report.times.kernel;
  const std::lock_guard lock(mutex_);
  if (report.bytes_up == 0) least_submit_us_ = std::min(least_submit_us_, rest);
  const double queued = report.bytes_up == 0 ? 0 : std::max(0.0, rest - least_submit_us_);
  report.times.submit = rest - queued;
  report.times.upload += queued;
}

/// Evicts resident arrays when memory runs out, except those in use. Returns false if there were
/// none.
bool VulkanTaskBackend::let_go_of_residents() {
  const std::lock_guard lock(mutex_);
  if (residents_.empty()) return false;
  residents_.clear();
  return true;
}

RunReport VulkanTaskBackend::run(const DeviceProgram& program) {
  try {
    return run_once(program);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::OutOfDeviceMemory || !let_go_of_residents()) throw;
  }
  return run_once(program);
}

RunReport VulkanTaskBackend::run_once(const DeviceProgram& program) {
  RunReport report;
  if (program.items == 0) return report;
  if (program.items > ~std::uint32_t{0})
    throw Error(ErrorCode::Unsupported, program.name + ": more than 2^32 - 1 items");
  const std::shared_ptr<Device> device = this->device();
  const Kernel kernel = compiled(device, program, report);
  const std::uint64_t allocated = device->counters().driver_allocations;
  std::vector<Upload> uploads;
  const auto arrays = buffers(*device, program, uploads, report);

  const Time start = std::chrono::steady_clock::now();
  for (const Upload& upload : uploads) report.bytes_up += upload.bytes.size();
  if (!uploads.empty()) device->upload(uploads);
  const Time uploaded = std::chrono::steady_clock::now();
  CommandList list = device->command_list(program.name);
  record(list, device->limits(), kernel, program, arrays);
  device->submit(list).wait();
  const Time ran = std::chrono::steady_clock::now();
  std::vector<Download> downloads;
  for (std::size_t k = 0; k < arrays.size(); ++k)
    append(downloads, *arrays[k], program.arrays[k].written);
  for (const Download& download : downloads) report.bytes_down += download.bytes.size();
  if (!downloads.empty()) device->download(downloads);
  const Time end = std::chrono::steady_clock::now();

  report.times.upload = microseconds(start, uploaded);
  report.times.read_back = microseconds(ran, end);
  split_times(microseconds(uploaded, ran), microseconds_between(list).value_or(0), report);
  report.cold = report.cold || device->counters().driver_allocations != allocated;
  const std::lock_guard lock(mutex_);
  for (std::size_t k = 0; k < arrays.size() && device_ == device; ++k) {
    const DeviceArray& array = program.arrays[k];
    if (array.key != 0 && array.written.empty())
      residents_.put(array.key, array.version, arrays[k]);
  }
  return report;
}

void VulkanTaskBackend::prepare(const DeviceProgram& program) {
  const std::shared_ptr<Device> device = this->device();
  RunReport report;
  compiled(device, program, report);
  std::vector<Upload> uploads;
  buffers(*device, program, uploads, report);
}

void VulkanTaskBackend::limit_resident(std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  residents_.limit(bytes);
}

std::uint64_t VulkanTaskBackend::resident(const DeviceProgram& program) const {
  const std::lock_guard lock(mutex_);
  std::uint64_t sum = 0;
  for (const DeviceArray& array : program.arrays) {
    if (array.key != 0 && residents_.find(array.key, array.version, array.bytes()))
      sum += array.bytes();
  }
  return sum;
}

/// The process's memory budget without the bytes of live buffers; for a device that shares the
/// host's memory at most what is free there.
std::optional<std::uint64_t> VulkanTaskBackend::free_bytes() const {
  const std::shared_ptr<Device> device = opened();
  std::uint64_t free = 0;
  const std::vector<MemoryHeap> heaps =
      device ? memory_heaps(device->core()->physical, info_.features.memory_budget) : info_.heaps;
  for (const MemoryHeap& heap : heaps)
    if (heap.device_local) free = std::max(free, heap.budget);
  if (free == 0) return std::nullopt;
  std::uint64_t held = 0;
  if (device) {
    const MemoryStatistics memory = device->memory();
    const std::lock_guard lock(mutex_);
    held = memory.bytes_in_use + memory.bytes_padding;
    held -= std::min(held, residents_.bytes());
  }
  free -= std::min(free, held);
  const bool shares = info_.software() || info_.type == DeviceType::Integrated;
  const std::uint64_t left = shares ? platform::available_memory_bytes() : 0;
  return left > 0 ? std::min(free, left) : free;
}

std::vector<hybrid::Figure> VulkanTaskBackend::figures() const {
  const std::shared_ptr<Device> device = opened();
  if (!device) return {};
  const MemoryStatistics memory = device->memory();
  const DiskCacheCounters disk = device->disk_cache().counters();
  const Counters counters = device->counters();
  std::vector<hybrid::Figure> out;
  const auto add = [&](const char* name, const char* help, const char* label, const char* value,
                       auto number, bool counter) {
    out.push_back({name, help, {{label, value}}, static_cast<double>(number), counter});
  };
  constexpr const char* kPool = "topograd_pool_bytes";
  constexpr const char* kPoolHelp = "Device memory, by state.";
  add(kPool, kPoolHelp, "state", "in_use", memory.bytes_in_use, false);
  add(kPool, kPoolHelp, "state", "padding", memory.bytes_padding, false);
  add(kPool, kPoolHelp, "state", "reserved", memory.bytes_reserved, false);
  constexpr const char* kAllocations = "topograd_pool_allocations_total";
  constexpr const char* kAllocationsHelp = "Buffers, by where they came from.";
  add(kAllocations, kAllocationsHelp, "source", "pool", memory.pool_hits, true);
  add(kAllocations, kAllocationsHelp, "source", "driver", memory.driver_allocations, true);
  constexpr const char* kCache = "topograd_disk_cache_total";
  constexpr const char* kCacheHelp = "Look-ups and writes of the cache on disk.";
  add(kCache, kCacheHelp, "event", "hit", disk.hits, true);
  add(kCache, kCacheHelp, "event", "miss", disk.misses, true);
  add(kCache, kCacheHelp, "event", "rejected", disk.rejected, true);
  add(kCache, kCacheHelp, "event", "write", disk.writes, true);
  add(kCache, kCacheHelp, "event", "write_failure", disk.write_failures, true);
  constexpr const char* kPipelines = "topograd_pipelines_total";
  constexpr const char* kPipelinesHelp = "Kernels, by whether one was made.";
  add(kPipelines, kPipelinesHelp, "event", "created", counters.pipelines_created, true);
  add(kPipelines, kPipelinesHelp, "event", "found", counters.pipeline_cache_hits, true);
  return out;
}

void VulkanTaskBackend::reopen() {
  {
    const std::lock_guard lock(mutex_);
    if (device_ && !device_->lost()) return;
    residents_.clear();
  }
  std::shared_ptr<Device> fresh = open(options_);
  const std::lock_guard lock(mutex_);
  device_ = std::move(fresh);
  kernels_ = kernel_cache(device_);
}

}  // namespace

std::unique_ptr<hybrid::DeviceBackend> make_hybrid_backend(const DeviceOptions& options) {
  return std::make_unique<VulkanTaskBackend>(options);
}

std::unique_ptr<hybrid::DeviceBackend> make_hybrid_backend(const DeviceOptions& options,
                                                           const DeviceInfo& info) {
  return std::make_unique<VulkanTaskBackend>(options, info);
}

namespace {

/// True if something is missing, as opposed to failing.
bool is_absence(ErrorCode code) {
  return code == ErrorCode::NoLoader || code == ErrorCode::NoDriver || code == ErrorCode::NoDevice;
}

}  // namespace

std::size_t add_vulkan_devices(hybrid::Executor& executor, const DeviceOptions& options) {
  std::vector<DeviceInfo> list;
  try {
    list = devices(options);
    if (!options.device.empty()) list = {list.at(choose_device(list, options))};
  } catch (const Error& error) {
    if (!hybrid::is_device_failure(error.code())) throw;
    if (!is_absence(error.code())) {
      executor.add_device(hybrid::make_unavailable_backend("vulkan", error.what()));
      executor.outside_work().record_fallback("open", "vulkan", error);
    }
  }
  // Others may have added devices to the same executor.
  std::set<std::string> known;
  for (const hybrid::Capabilities& c : executor.capabilities()) known.insert(c.name);
  std::size_t usable = 0;
  for (const DeviceInfo& info : list) {
    if (known.contains(info.name)) {
      usable += info.unusable.empty() ? 1 : 0;
      continue;
    }
    DeviceOptions one = options;
    one.device = std::to_string(info.index);
    try {
      if (!info.unusable.empty()) throw Error(ErrorCode::Unsupported, info.unusable);
      require_self_check(one);
      executor.add_device(make_hybrid_backend(one));
      ++usable;
    } catch (const Error& error) {
      executor.add_device(hybrid::make_unavailable_backend(info.name, error.what()));
      if (info.unusable.empty()) executor.outside_work().record_fallback("open", info.name, error);
    }
  }
  return usable;
}

}  // namespace topograd::runtime::vulkan
