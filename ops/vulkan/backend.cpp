// Vulkan backend: memory of the device's pools, kernels by source, and launches in order.
#include "backend.hpp"

#include "../../ir/error.hpp"
#include "../../ir/machine/foreign_call.hpp"
#include "../../runtime/device/check/self_check.hpp"
#include "../../runtime/device/command_stream.hpp"
#include "../../runtime/device/device.hpp"
#include "../../runtime/device/kernels/kernel_cache.hpp"
#include "../../runtime/hybrid/vulkan/hybrid_backend.hpp"
#include "../../runtime/vulkan/gather/columns_in_place.hpp"
#include "../backend/backend.hpp"
#include "../backend/compute_kernel.hpp"
#include "../backend/device_list.hpp"
#include "../run/host_blocks.hpp"
#include "../run/storage.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace topograd::ops {
namespace {

namespace vk = runtime::vulkan;

class VulkanMemory final : public Memory, public vk::StreamBuffer {
 public:
  ///   front  bytes of the buffer before the memory
  VulkanMemory(std::uint64_t bytes, vk::Buffer made, std::uint64_t front, bool unified)
      : Memory(bytes), StreamBuffer(std::move(made)), front_(front), unified_(unified) {}

  std::byte* host() const override { return unified_ ? buffer.mapped() + front_ : nullptr; }
  std::uint64_t front() const { return front_; }

 private:
  std::uint64_t front_;
  bool unified_;
};

inline VulkanMemory& as_vulkan(const std::shared_ptr<Memory>& memory) {
  return static_cast<VulkanMemory&>(*memory);
}

/// Bytes that alignment and guard zones may add to a binding.
inline constexpr std::uint64_t kBindingSlack = 1024;

std::string describe(const ComputeKernel& kernel, std::size_t argument) {
  return "kernel \"" + kernel.name + "\": argument " + std::to_string(argument) + ": ";
}

void check(const Launch& launch, const vk::Limits& limits) {
  const ComputeKernel& kernel = *launch.kernel;
  if (launch.arguments.size() != kernel.arguments || launch.words.size() != kernel.words) {
    throw Error(ErrorCode::InvalidArgument,
                "kernel \"" + kernel.name + "\": expected " + std::to_string(kernel.arguments) +
                    " arguments and " + std::to_string(kernel.words) + " words, got " +
                    std::to_string(launch.arguments.size()) + " and " +
                    std::to_string(launch.words.size()));
  }
  for (std::size_t k = 0; k < launch.arguments.size(); ++k) {
    const Argument& a = launch.arguments[k];
    if (a.offset % a.element != 0 || a.offset > a.memory->bytes() ||
        a.bytes > a.memory->bytes() - a.offset) {
      throw Error(ErrorCode::InvalidArgument, describe(kernel, k) + "bytes " +
                                                  std::to_string(a.offset) + " + " +
                                                  std::to_string(a.bytes) + " do not lie in its " +
                                                  std::to_string(a.memory->bytes()) + " bytes");
    }
    if (a.bytes > limits.max_storage_buffer_range - kBindingSlack) {
      throw Error(ErrorCode::OutOfDeviceMemory,
                  describe(kernel, k) + std::to_string(a.bytes) +
                      " bytes are over the device's limit of " +
                      std::to_string(limits.max_storage_buffer_range - kBindingSlack));
    }
  }
}

/// All words that the argument touches, from the last aligned byte before it; with guard zones, the
/// adjacent words, too, so that writes to them are detected.
///
///   first  receives the number of elements in front of the argument
vk::CommandStream::Argument bind(const vk::Limits& limits, const Argument& a,
                                 std::uint32_t& first) {
  VulkanMemory& memory = as_vulkan(a.memory);
  const std::uint64_t alignment =
      std::max<std::uint64_t>(limits.storage_buffer_offset_alignment, a.element);
  const std::uint64_t zone = std::min<std::uint64_t>(memory.front(), 256);
  const std::uint64_t begin = memory.front() + a.offset;
  const std::uint64_t end = begin + std::max<std::uint64_t>(a.bytes, a.element);
  const std::uint64_t from = (begin - zone) / alignment * alignment;
  const std::uint64_t to = std::min(
      {(end + zone + 3) / 4 * 4, memory.buffer.size(), from + limits.max_storage_buffer_range});
  first = static_cast<std::uint32_t>((begin - from) / a.element);
  return {&memory, from, to - from, a.access != Access::read};
}

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
    return View{memory_, &memory.buffer, memory.front() / size_of(type_), type_ == Type::f64};
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
          .int64 = f.int64,
          .int64_atomics = f.int64_atomics,
          .atomic_float32 = f.atomic_float32_add,
          .atomic_float64 = f.atomic_float64_add,
          .cooperative_matrix = f.cooperative_matrix,
          .groups_progress = info.vendor_id == kNvidia,  // as CUDA guarantees for the same devices
          .loop_iterations = l.max_loop_iterations,
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
  VulkanClock(std::mutex& mutex, vk::CommandStream& stream) : mutex_(mutex), stream_(stream) {}

  bool begin() override {
    const Turn turn(mutex_);
    return stream_.begin_timing();
  }
  void end(std::function<void(std::optional<double>)> done) override {
    const Turn turn(mutex_);
    stream_.end_timing(std::move(done));
  }
  void when_done(std::function<void()> done) override {
    const std::lock_guard lock(mutex_);
    stream_.when_done([done = std::move(done)](std::optional<double>) { done(); });
  }

 private:
  std::mutex& mutex_;
  vk::CommandStream& stream_;
};

DeviceFacts facts_of_open(vk::Device& device) {
  DeviceFacts facts = facts_of(device.info());
  // A driver may allow fewer types of memory for buffers than for other data.
  const vk::Buffer probe = device.buffer(4096, vk::MemoryKind::Device, "array");
  facts.unified = probe.readable();
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
        kernels_(vk::kernel_cache(held_)),
        stream_(device_, "arrays"),
        clock_(mutex_, stream_) {}

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
    stream_.copy(as_vulkan(from), 0, *to, 0, bytes);
    stream_.flush();
    downloaded_ += from->bytes();
    return to;
  }

  void upload(const std::shared_ptr<Memory>& to, std::uint64_t offset,
              std::span<const std::byte> from) override {
    if (from.empty()) return;
    const Turn turn(mutex_);
    VulkanMemory& memory = as_vulkan(to);
    if (memory.recorded) stream_.flush();
    // Mapped memory is written at once, and the host may read it again.
    if (memory.host() != nullptr) memory.last.wait();
    device_->upload(memory.buffer, memory.front() + offset, from);
    uploaded_ += from.size();
  }
  void download(const std::shared_ptr<Memory>& from, std::uint64_t offset,
                std::span<std::byte> to) override {
    if (to.empty()) return;
    const Turn turn(mutex_);
    stream_.flush();
    VulkanMemory& memory = as_vulkan(from);
    device_->download(memory.buffer, memory.front() + offset, to);
    downloaded_ += to.size();
    stream_.settle();
  }
  void copy(const std::shared_ptr<Memory>& from, std::uint64_t from_offset,
            const std::shared_ptr<Memory>& to, std::uint64_t to_offset,
            std::uint64_t bytes) override {
    const Turn turn(mutex_);
    VulkanMemory &source = as_vulkan(from), &target = as_vulkan(to);
    if (bytes > 0)
      stream_.copy(source, source.front() + from_offset, target, target.front() + to_offset, bytes);
  }
  void fill(const std::shared_ptr<Memory>& to, std::uint64_t offset, std::uint64_t bytes,
            std::uint32_t word) override {
    const Turn turn(mutex_);
    VulkanMemory& target = as_vulkan(to);
    if (bytes > 0) stream_.fill(target, target.front() + offset, bytes, word);
  }
  std::shared_ptr<const ir::ResidentData> numbers(const std::shared_ptr<Memory>& memory, Type type,
                                                  std::uint64_t count) override {
    return std::make_shared<VulkanNumbers>(shared_from_this(), memory, type, count);
  }
  void wait(const std::shared_ptr<Memory>& memory) override {
    const Turn turn(mutex_);
    VulkanMemory& m = as_vulkan(memory);
    if (m.recorded) stream_.flush();
    m.last.wait();
    stream_.settle();
  }

  void launch(const Launch& launch) override;
  bool prepare(const ComputeKernel& kernel) override {
    return made(kernel).origin != vk::Origin::memory;
  }
  void flush() override {
    const Turn turn(mutex_);
    stream_.flush();
  }
  void synchronise() override {
    const Turn turn(mutex_);
    stream_.flush();
    device_->wait_idle();
    stream_.settle();
  }
  QueueClock& clock() override { return clock_; }
  BackendCounters counters() const override {
    const std::lock_guard lock(mutex_);
    const vk::MemoryStatistics memory = device_->memory();
    const vk::CompileStats compiled = compiled_.stats();
    return {.bytes_up = uploaded_,
            .bytes_down = downloaded_,
            .launches = stream_.dispatches(),
            .submissions = device_->transfers().submissions,
            .barriers = stream_.barriers(),
            .compiled = compiled.compiled + compiled.disk_hits,
            .from_disk = compiled.disk_hits,
            .bytes_in_use = memory.bytes_in_use,
            .peak_bytes_in_use = memory.peak_bytes_in_use};
  }

 private:
  vk::StoredKernel made(const ComputeKernel& text);
  void guard(const std::shared_ptr<VulkanMemory>& memory, std::uint64_t zone,
             std::string_view name);

  const std::shared_ptr<vk::Device> device_;
  const std::shared_ptr<vk::Device> held_;  // keeps the device open for others
  const std::shared_ptr<vk::KernelCache> kernels_;
  vk::CompileAccount compiled_;
  mutable std::mutex mutex_;  // guards what follows
  vk::CommandStream stream_;
  VulkanClock clock_;
  std::uint64_t uploaded_ = 0, downloaded_ = 0;
};

vk::StoredKernel VulkanOpBackend::made(const ComputeKernel& text) {
  ir::Hash128 key = text.hash;
  key.add(1);  // the compilation differs from that of solver kernels
  return kernels_->kernel({.name = text.name,
                           .glsl = text.glsl,
                           .key = key,
                           .controls = vk::float_controls(device_->features()),
                           .storage_buffers = text.arguments,
                           .push_constant_bytes = 4 * (text.arguments + 1 + text.words),
                           .local_size = text.local_size},
                          compiled_);
}

void VulkanOpBackend::launch(const Launch& launch) {
  const Turn turn(mutex_);
  check(launch, device_->limits());
  const vk::Kernel kernel = made(*launch.kernel).kernel;
  std::array<vk::CommandStream::Argument, 32> arguments;
  std::array<std::uint32_t, 32> push{};
  const std::size_t count = launch.arguments.size();
  for (std::size_t k = 0; k < count; ++k)
    arguments[k] = bind(device_->limits(), launch.arguments[k], push[k]);
  std::ranges::copy(launch.words, push.begin() + static_cast<std::ptrdiff_t>(count) + 1);
  const std::size_t words = count + 1 + launch.words.size();
  stream_.dispatch(kernel, std::span(arguments).first(count),
                   std::as_bytes(std::span(push).first(words)),
                   {launch.groups.x, launch.groups.y, launch.groups.z});
}

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
  const std::uint64_t behind = memory->buffer.size() - zone;
  device_->upload(memory->buffer, 0, std::as_bytes(std::span(words)));
  device_->upload(memory->buffer, behind, std::as_bytes(std::span(words)));
  keep_guarded([self = shared_from_this(), this, memory, zone, behind, what = std::string(name)] {
    synchronise();
    std::vector<std::byte> bytes(zone);
    device_->download(memory->buffer, 0, bytes);
    std::string line = describe_zone(what + " (" + facts().name + ") in front", bytes);
    if (!line.empty()) return line;
    device_->download(memory->buffer, behind, bytes);
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

std::vector<ListedDevice> devices_of_system() {
  std::vector<vk::DeviceInfo> found;
  try {
    found = vk::devices();
  } catch (const Error& error) {
    if (error.code() == ErrorCode::InvalidArgument) throw;
  }
  const std::optional<std::size_t> preferred = preferred_of(found);
  const bool named = std::getenv("TOPOGRAD_DEVICE") != nullptr;
  std::vector<ListedDevice> out;
  for (std::size_t k = 0; k < found.size(); ++k) {
    const vk::DeviceInfo& info = found[k];
    ListedDevice listed;
    listed.facts = facts_of(info);
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
