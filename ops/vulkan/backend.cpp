// Vulkan backend: memory of the device's pools, also for solvers, kernels, one open command list.
#include "backend.hpp"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "../../ir/error.hpp"
#include "../../ir/machine/foreign_call.hpp"
#include "../../runtime/device/check/self_check.hpp"
#include "../../runtime/device/device.hpp"
#include "../../runtime/hybrid/vulkan/hybrid_backend.hpp"
#include "../../runtime/vulkan/gather/columns_in_place.hpp"
#include "../backend/device_list.hpp"
#include "../run/host_blocks.hpp"
#include "../run/storage.hpp"
#include "kernels.hpp"
#include "recorder.hpp"

namespace topograd::ops {
namespace {

namespace vk = runtime::vulkan;

class VulkanNumbers final : public vk::DeviceNumbers {
 public:
  VulkanNumbers(std::shared_ptr<OpBackend> backend, std::shared_ptr<Memory> memory, Type type,
                std::uint64_t count)
      : backend_(std::move(backend)), memory_(std::move(memory)), type_(type), count_(count) {}

  std::size_t size() const override { return count_; }
  std::vector<double> read() const override {
    return type_ == Type::f64 ? read_as<double>() : read_as<float>();
  }
  std::optional<View> view(const vk::Device& device) const override {
    if (device.core() != vulkan_device(*backend_)->core()) return std::nullopt;
    backend_->flush();
    const VulkanMemory& memory = as_vulkan(memory_);
    return View{memory_, &memory.buffer(), memory.front() / size_of(type_), type_ == Type::f64};
  }

 private:
  template <class T>
  std::vector<double> read_as() const {
    std::vector<T> numbers(count_);
    backend_->download(memory_, 0, std::as_writable_bytes(std::span(numbers)));
    return {numbers.begin(), numbers.end()};
  }

  const std::shared_ptr<OpBackend> backend_;
  const std::shared_ptr<Memory> memory_;
  const Type type_;
  const std::uint64_t count_;
};

constexpr std::uint32_t kNvidia = 0x10de;

LaunchLimits limits_of(const vk::Device& device) {
  const vk::DeviceInfo& info = device.info();
  const vk::Limits& l = info.limits;
  const vk::Features& f = info.features;
  return {.binding_bytes = l.max_storage_buffer_range - kBindingSlack,
          .groups = std::min(l.max_workgroups_x, l.max_workgroups_y),
          .local_size = std::min(l.max_workgroup_invocations, l.max_workgroup_size_x),
          .shared_bytes = l.shared_memory_bytes,
          .subgroup_size = f.subgroup_basic ? l.subgroup_size : 1,
          .subgroup_arithmetic = f.subgroup_arithmetic,
          .subgroup_shuffle = vk::has_subgroup_shuffle(device),
          .float64 = f.has_float64(),
          .int64 = f.int64,
          .int64_atomics = f.int64_atomics,
          .atomic_float32 = f.atomic_float32_add,
          .atomic_float64 = f.atomic_float64_add,
          .cooperative_matrix = f.cooperative_matrix,
          .groups_progress = info.vendor_id == kNvidia,  // as CUDA guarantees for the same devices
          .loop_iterations = l.max_loop_iterations,
          .software = info.software(),
          .occupied_by_few = info.software()};
}

/// The right to record; the end of the process waits for it.
class Turn {
 public:
  explicit Turn(std::mutex& mutex) : lock_(mutex) {}

 private:
  ForeignCall permission_{"device"};
  std::lock_guard<std::mutex> lock_;
};

class VulkanClock final : public QueueClock {
 public:
  VulkanClock(std::mutex& mutex, VulkanRecorder& recorder) : mutex_(mutex), recorder_(recorder) {}

  bool begin() override {
    const Turn turn(mutex_);
    return recorder_.begin_timing();
  }
  void end(std::function<void(std::optional<double>)> done) override {
    const Turn turn(mutex_);
    recorder_.end_timing(std::move(done));
  }
  void when_done(std::function<void()> done) override {
    const std::lock_guard lock(mutex_);
    recorder_.when_done([done = std::move(done)](std::optional<double>) { done(); });
  }

 private:
  std::mutex& mutex_;
  VulkanRecorder& recorder_;
};

DeviceFacts facts_of_open(vk::Device& device) {
  DeviceFacts facts = facts_of(device.info());
  // A driver may allow fewer types of memory for buffers than for other data.
  const vk::Buffer probe = device.buffer(4096, vk::MemoryKind::Device, "array");
  facts.unified = probe.mapped() != nullptr && probe.cached();
  return facts;
}

class VulkanOpBackend final : public OpBackend {
 public:
  explicit VulkanOpBackend(const std::shared_ptr<vk::Device>& opened)
      : VulkanOpBackend(opened, std::make_shared<vk::Device>(opened->core())) {}
  VulkanOpBackend(std::shared_ptr<vk::Device> opened, std::shared_ptr<vk::Device> device)
      : OpBackend(facts_of_open(*device), limits_of(*opened)),
        device_(std::move(device)),
        held_(std::move(opened)),
        kernels_(device_),
        recorder_(device_, kernels_),
        clock_(mutex_, recorder_) {}

  const std::shared_ptr<vk::Device>& device() const { return device_; }

  std::shared_ptr<Memory> allocate(std::uint64_t bytes, std::string_view name) override;

  std::shared_ptr<Memory> import(std::span<std::byte> memory, std::string_view name) override {
    std::optional<vk::Buffer> buffer = vk::import_host_memory(*device_, memory, name);
    if (!buffer) return nullptr;
    return std::make_shared<VulkanMemory>(memory.size(), std::move(*buffer), 0, true);
  }
  std::shared_ptr<Memory> fetch(const std::shared_ptr<Memory>& from,
                                std::string_view name) override {
    if (from->host() != nullptr) return nullptr;
    const std::uint64_t bytes = (std::max<std::uint64_t>(from->bytes(), 4) + 3) / 4 * 4;
    auto to = std::make_shared<VulkanMemory>(
        from->bytes(), device_->buffer(bytes, vk::MemoryKind::Readback, name), 0, true);
    const Turn turn(mutex_);
    recorder_.copy(from, 0, to, 0, bytes);
    recorder_.flush();
    downloaded_ += from->bytes();
    return to;
  }

  void upload(const std::shared_ptr<Memory>& to, std::uint64_t offset,
              std::span<const std::byte> from) override {
    if (from.empty()) return;
    const Turn turn(mutex_);
    VulkanMemory& memory = as_vulkan(to);
    if (recorder_.uses(memory)) recorder_.flush();
    // Mapped memory is written at once, and the host may read it again.
    if (memory.host() != nullptr) memory.last.wait();
    device_->upload(memory.buffer(), memory.front() + offset, from);
    uploaded_ += from.size();
  }
  void download(const std::shared_ptr<Memory>& from, std::uint64_t offset,
                std::span<std::byte> to) override {
    if (to.empty()) return;
    const Turn turn(mutex_);
    recorder_.flush();
    VulkanMemory& memory = as_vulkan(from);
    device_->download(memory.buffer(), memory.front() + offset, to);
    downloaded_ += to.size();
    recorder_.settle();
  }
  void copy(const std::shared_ptr<Memory>& from, std::uint64_t from_offset,
            const std::shared_ptr<Memory>& to, std::uint64_t to_offset,
            std::uint64_t bytes) override {
    const Turn turn(mutex_);
    if (bytes > 0) recorder_.copy(from, from_offset, to, to_offset, bytes);
  }
  void fill(const std::shared_ptr<Memory>& to, std::uint64_t offset, std::uint64_t bytes,
            std::uint32_t word) override {
    const Turn turn(mutex_);
    if (bytes > 0) recorder_.fill(to, offset, bytes, word);
  }
  std::shared_ptr<const ir::ResidentData> numbers(const std::shared_ptr<Memory>& memory, Type type,
                                                  std::uint64_t count) override {
    return numbers_of(shared_from_this(), memory, type, count);
  }
  void wait(const std::shared_ptr<Memory>& memory) override {
    const Turn turn(mutex_);
    VulkanMemory& m = as_vulkan(memory);
    if (recorder_.uses(m)) recorder_.flush();
    m.last.wait();
    recorder_.settle();
  }

  void launch(const Launch& launch) override {
    const Turn turn(mutex_);
    recorder_.launch(launch);
  }
  bool prepare(const ComputeKernel& kernel) override { return kernels_.make(kernel).second; }
  void flush() override {
    const Turn turn(mutex_);
    recorder_.flush();
  }
  void synchronise() override {
    const Turn turn(mutex_);
    recorder_.flush();
    device_->wait_idle();
    recorder_.settle();
  }
  QueueClock& clock() override { return clock_; }
  BackendCounters counters() const override {
    const std::lock_guard lock(mutex_);
    const vk::MemoryStatistics memory = device_->memory();
    return {.bytes_up = uploaded_,
            .bytes_down = downloaded_,
            .launches = recorder_.launches(),
            .submissions = device_->transfers().submissions,
            .barriers = recorder_.barriers(),
            .compiled = kernels_.made(),
            .from_disk = kernels_.from_disk(),
            .bytes_in_use = memory.bytes_in_use,
            .peak_bytes_in_use = memory.peak_bytes_in_use};
  }

 private:
  void guard(const std::shared_ptr<VulkanMemory>& memory, std::uint64_t zone,
             std::string_view name);

  const std::shared_ptr<vk::Device> device_;
  const std::shared_ptr<vk::Device> held_;  // keeps the device open for others
  mutable std::mutex mutex_;                // guards what follows
  VulkanKernels kernels_;
  VulkanRecorder recorder_;
  VulkanClock clock_;
  std::uint64_t uploaded_ = 0, downloaded_ = 0;
};

std::shared_ptr<Memory> VulkanOpBackend::allocate(std::uint64_t bytes, std::string_view name) {
  const std::uint64_t zone = guard_zone_bytes();
  const std::uint64_t rounded = (std::max<std::uint64_t>(bytes, 8) + 3) / 4 * 4;
  const std::uint64_t most = device_->limits().max_allocation_size;
  if (rounded + 2 * zone > most) {
    throw Error(ErrorCode::OutOfDeviceMemory,
                std::string(name) + ": expected at most " + std::to_string(most - 2 * zone) +
                    " bytes at once on \"" + facts().name + "\", got " + std::to_string(bytes));
  }
  const auto take = [&] {
    return device_->buffer(rounded + 2 * zone, vk::MemoryKind::Device, name);
  };
  vk::Buffer buffer;
  try {
    buffer = take();
  } catch (const Error& error) {
    // Memory kept alive by queued work may suffice.
    if (error.code() != ErrorCode::OutOfDeviceMemory) throw;
    synchronise();
    device_->trim();
    buffer = take();
  }
  auto memory = std::make_shared<VulkanMemory>(bytes, std::move(buffer), zone, facts().unified);
  if (zone > 0) guard(memory, zone, name);
  return memory;
}

void VulkanOpBackend::guard(const std::shared_ptr<VulkanMemory>& memory, std::uint64_t zone,
                            std::string_view name) {
  const std::vector<std::uint32_t> words(zone / 4, kGuardWord);
  const std::uint64_t behind = memory->buffer().size() - zone;
  device_->upload(memory->buffer(), 0, std::as_bytes(std::span(words)));
  device_->upload(memory->buffer(), behind, std::as_bytes(std::span(words)));
  keep_guarded([self = shared_from_this(), this, memory, zone, behind, what = std::string(name)] {
    synchronise();
    std::vector<std::byte> bytes(zone);
    device_->download(memory->buffer(), 0, bytes);
    std::string line = describe_zone(what + " (" + facts().name + ") in front", bytes);
    if (!line.empty()) return line;
    device_->download(memory->buffer(), behind, bytes);
    return describe_zone(what + " (" + facts().name + ") behind", bytes);
  });
}

/// Backends of the process. Never destroyed, like the runtime's registry of devices.
struct Registry {
  std::mutex mutex;
  std::vector<std::shared_ptr<VulkanOpBackend>> backends;
};
Registry& registry() {
  static Registry& instance = *new Registry;
  return instance;
}

/// Equal options for equal devices; for the device that solves use, their options.
vk::DeviceOptions options_of(std::size_t index, std::optional<std::size_t> preferred) {
  vk::DeviceOptions options;
  if (index != preferred) options.device = std::to_string(index);
  return options;
}

std::optional<std::size_t> preferred_of(const std::vector<vk::DeviceInfo>& list) {
  try {
    return vk::choose_device(list, {});
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace

std::shared_ptr<const ir::ResidentData> numbers_of(std::shared_ptr<OpBackend> backend,
                                                   std::shared_ptr<Memory> memory, Type type,
                                                   std::uint64_t count) {
  return std::make_shared<VulkanNumbers>(std::move(backend), std::move(memory), type, count);
}

DeviceFacts facts_of(const vk::DeviceInfo& info) {
  DeviceFacts facts{.name = info.name, .kind = std::string(vk::name(info.type))};
  for (const vk::MemoryHeap& heap : info.heaps) {
    if (heap.device_local) facts.memory_bytes = std::max(facts.memory_bytes, heap.budget);
  }
  facts.float64 = info.features.has_float64();
  facts.unified = info.unified;
  return facts;
}

Device open_vulkan(const vk::DeviceOptions& options) {
  const std::shared_ptr<vk::Device> device = vk::open(options);
  const std::lock_guard lock(registry().mutex);
  auto& backends = registry().backends;
  std::erase_if(backends, [](const auto& backend) { return backend->device()->lost(); });
  for (const auto& backend : backends) {
    if (backend->device()->core() == device->core()) return Device(backend);
  }
  backends.push_back(std::make_shared<VulkanOpBackend>(device));
  return Device(backends.back());
}

std::shared_ptr<vk::Device> vulkan_device(const OpBackend& backend) {
  const auto* vulkan = dynamic_cast<const VulkanOpBackend*>(&backend);
  return vulkan ? vulkan->device() : nullptr;
}

std::vector<vk::DeviceInfo> vulkan_devices() {
  try {
    return vk::devices();
  } catch (const Error& error) {
    if (error.code() == ErrorCode::InvalidArgument) throw;
    return {};
  }
}

std::vector<ListedDevice> devices_of_system() {
  const std::vector<vk::DeviceInfo> found = vulkan_devices();
  const std::optional<std::size_t> preferred = preferred_of(found);
  const bool named = std::getenv("TOPOGRAD_DEVICE") != nullptr;
  std::vector<ListedDevice> out;
  for (std::size_t k = 0; k < found.size(); ++k) {
    const vk::DeviceInfo& info = found[k];
    ListedDevice listed;
    listed.facts = facts_of(info);
    listed.problem = info.unusable;
    listed.preferred = k == preferred;
    listed.asked_for = listed.preferred && named;
    listed.open = [options = options_of(k, preferred)] {
      vk::require_self_check(options);
      return open_vulkan(options);
    };
    listed.for_executor = [options = options_of(k, preferred), info] {
      return vk::make_hybrid_backend(options, info);
    };
    out.push_back(std::move(listed));
  }
  return out;
}

Device open_named(std::string_view which) {
  vk::DeviceOptions options;
  options.device = which;
  const std::vector<vk::DeviceInfo> found = vk::devices();
  return open_vulkan(options_of(vk::choose_device(found, options), preferred_of(found)));
}

}  // namespace topograd::ops
