// Vulkan backend: memory of the device's pools, kernels by source, and launches in order.
#include "backend.hpp"

#include "../../codegen/spirv/edit_modules.hpp"
#include "../../codegen/spirv/reflect.hpp"
#include "../../codegen/spirv/shader_compiler.hpp"
#include "../../ir/error.hpp"
#include "../../ir/machine/foreign_call.hpp"
#include "../../runtime/device/check/self_check.hpp"
#include "../../runtime/device/device.hpp"
#include "../../runtime/device/kernels/kernel_cache.hpp"
#include "../../runtime/device/opened/core.hpp"
#include "../../runtime/hybrid/vulkan/hybrid_backend.hpp"
#include "../../runtime/kernel_listing.hpp"
#include "../../runtime/vulkan/gather/columns_in_place.hpp"
#include "../backend/backend.hpp"
#include "../backend/compute_kernel.hpp"
#include "../backend/device_list.hpp"
#include "../run/host_blocks.hpp"
#include "../run/storage.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace topograd::ops {
namespace {

/// Thread-safe.
class VulkanKernels {
 public:
  explicit VulkanKernels(std::shared_ptr<runtime::vulkan::Device> device)
      : device_(std::move(device)) {}

  /// The kernel, and true if it had to be made.
  ///
  /// Throws Error{ShaderCompile, LayoutMismatch, Unsupported}.
  std::pair<runtime::vulkan::Kernel, bool> make(const ComputeKernel& text);
  std::uint64_t made() const { return made_; }
  /// Part of these whose module was found on disk.
  std::uint64_t from_disk() const { return from_disk_; }

 private:
  runtime::vulkan::Kernel compile(const ComputeKernel& text);

  const std::shared_ptr<runtime::vulkan::Device> device_;
  std::mutex mutex_;
  std::unordered_map<ir::Hash128, runtime::vulkan::Kernel> kernels_;
  std::atomic<std::uint64_t> made_{0}, from_disk_{0};
};

namespace vk = runtime::vulkan;

void require(bool there, const ComputeKernel& text, const char* what,
             const vk::DeviceInfo& device) {
  if (there) return;
  throw Error(ErrorCode::Unsupported, "kernel \"" + text.name + "\": expected a device with " +
                                          what + ", got \"" + device.name + "\" without it");
}

void check_features(const ComputeKernel& text, const codegen::ModuleLayout& layout,
                    const vk::DeviceInfo& info) {
  const vk::Features& f = info.features;
  require(f.has_float64() || !layout.uses_float64(), text, "float64", info);
  require(f.int64 || !layout.uses_int64(), text, "int64", info);
  require(f.int64_atomics || !layout.uses_int64_atomics(), text, "64-bit integer atomics", info);
  require(f.atomic_float32_add || !layout.uses_float32_atomic_add(), text, "float32 atomics", info);
  require(f.atomic_float64_add || !layout.uses_float64_atomic_add(), text, "float64 atomics", info);
  require(f.subgroup_basic || !layout.uses_subgroups(), text, "subgroups", info);
}

void check_layout(const ComputeKernel& text, const codegen::ModuleLayout& layout) {
  const std::size_t push = 4 * (text.arguments + 1 + text.words);
  if (layout.bindings.size() == text.arguments && layout.push_constant_size == push &&
      layout.workgroup_size == text.local_size)
    return;
  throw Error(ErrorCode::LayoutMismatch,
              text.name + ": expected " + std::to_string(text.arguments) + " storage buffers, " +
                  std::to_string(push) + " bytes of push constants and workgroups of " +
                  std::to_string(text.local_size[0]) + ", got " +
                  std::to_string(layout.bindings.size()) + ", " +
                  std::to_string(layout.push_constant_size) + " and " +
                  std::to_string(layout.workgroup_size[0]));
}

vk::Kernel VulkanKernels::compile(const ComputeKernel& text) {
  runtime::DiskCache& disk = device_->disk_cache();
  ir::Hash128 key = text.hash;
  key.add(1);  // the compilation differs from that of solver kernels
  auto [spirv, from_disk] = vk::load_or_compile(disk, key, [&] {
    return codegen::add_float_controls(
        codegen::compile({.name = text.name, .glsl = text.glsl, .includes = {}}),
        vk::float_controls(device_->features()));
  });
  const bool matrices = codegen::has_cooperative_matrices(spirv);
  require(device_->features().cooperative_matrix || !matrices, text, "cooperative matrices",
          device_->info());
  const codegen::ModuleLayout layout =
      matrices ? codegen::reflect_words(spirv) : codegen::reflect(spirv);
  check_features(text, layout, device_->info());
  check_layout(text, layout);
  if (from_disk) ++from_disk_;
  if (matrices && vk::has_khr_matrices(*device_)) spirv = codegen::to_khr_matrices(spirv);
  return device_->kernel({.spirv = spirv,
                          .name = text.name,
                          .storage_buffers = text.arguments,
                          .push_constant_bytes = 4 * (text.arguments + 1 + text.words),
                          .constants = {},
                          .local_size = text.local_size});
}

std::pair<vk::Kernel, bool> VulkanKernels::make(const ComputeKernel& text) {
  runtime::note_kernel(text.name, text.glsl);
  const ForeignCall permission("kernel");
  // One at a time: two threads usually request the same kernel.
  const std::lock_guard lock(mutex_);
  const auto found = kernels_.find(text.hash);
  if (found != kernels_.end()) return {found->second, false};
  vk::Kernel kernel = compile(text);
  ++made_;
  kernels_.emplace(text.hash, kernel);
  return {kernel, true};
}

class VulkanMemory final : public Memory {
 public:
  ///   front  bytes of the buffer before the memory
  VulkanMemory(std::uint64_t bytes, runtime::vulkan::Buffer buffer, std::uint64_t front,
               bool unified)
      : Memory(bytes), buffer_(std::move(buffer)), front_(front), unified_(unified) {}

  std::byte* host() const override { return unified_ ? buffer_.mapped() + front_ : nullptr; }
  const runtime::vulkan::Buffer& buffer() const { return buffer_; }
  std::uint64_t front() const { return front_; }

  runtime::vulkan::Submission last;  ///< last submission that uses it

 private:
  runtime::vulkan::Buffer buffer_;
  std::uint64_t front_;
  bool unified_;
};

inline VulkanMemory& as_vulkan(const std::shared_ptr<Memory>& memory) {
  return static_cast<VulkanMemory&>(*memory);
}

/// Bytes that alignment and guard zones may add to a binding.
inline constexpr std::uint64_t kBindingSlack = 1024;

/// Not thread-safe.
class VulkanRecorder {
 public:
  VulkanRecorder(std::shared_ptr<runtime::vulkan::Device> device, VulkanKernels& kernels)
      : device_(std::move(device)), kernels_(kernels) {}

  void launch(const Launch& launch);
  void copy(const std::shared_ptr<Memory>& from, std::uint64_t from_offset,
            const std::shared_ptr<Memory>& to, std::uint64_t to_offset, std::uint64_t bytes);
  void fill(const std::shared_ptr<Memory>& to, std::uint64_t offset, std::uint64_t bytes,
            std::uint32_t word);
  /// True if the open list reads or writes it.
  bool uses(const VulkanMemory& memory) const { return ranges_.contains(&memory); }

  void flush();
  /// Reports the times of finished submissions; does not wait.
  void settle();

  /// Without timestamps, both wait for the device, so that the host's clock sees its time.
  bool begin_timing();
  void end_timing(std::function<void(std::optional<double>)> done);
  /// Called, without a time, when the work recorded so far has finished.
  void when_done(std::function<void(std::optional<double>)> done);

  std::uint64_t launches() const { return launches_; }
  std::uint64_t barriers() const { return barriers_; }

 private:
  /// Accesses to a memory since the last barrier.
  struct Range {
    std::uint64_t begin = 0, end = 0;
    bool written = false;
  };
  struct Use {
    const std::shared_ptr<Memory>* memory;
    Range range;
  };
  using List = std::shared_ptr<runtime::vulkan::CommandList>;
  /// The interval between two timestamps of a list.
  struct Span {
    List list;
    std::size_t from = 0, to = 0;
  };
  struct Timing {
    std::vector<Span> spans;
    std::optional<double> wall_us;  ///< by the host's clock, without timestamps
    std::function<void(std::optional<double>)> done;
    runtime::vulkan::Submission submission;  ///< submission of the last span
    bool submitted = false;
  };

  runtime::vulkan::CommandList& open();
  runtime::vulkan::Binding bind(const Argument& argument, std::uint32_t& first, Use& use) const;
  void order(std::span<const Use> uses);
  void recorded(std::uint64_t bytes);
  /// Submits what is recorded and waits for all submissions.
  void finish();
  void stamp(bool begin);
  void tell_when_done(std::vector<Span> spans, std::optional<double> wall_us,
                      std::function<void(std::optional<double>)> done);
  static std::optional<double> time_of(const Timing& timing);

  const std::shared_ptr<runtime::vulkan::Device> device_;
  VulkanKernels& kernels_;
  List list_;
  std::unordered_map<const VulkanMemory*, std::vector<Range>> ranges_;  // keys are in used_
  std::vector<std::shared_ptr<Memory>> used_;
  double estimate_us_ = 0;
  std::size_t in_list_ = 0, stamps_ = 0;
  std::deque<runtime::vulkan::Submission> in_flight_;
  std::uint64_t launches_ = 0, barriers_ = 0;

  bool timing_ = false;
  std::chrono::steady_clock::time_point timing_began_;  // without timestamps
  std::vector<Span> spans_;
  std::deque<Timing> unsettled_;  // in the order of submission
};

// A submission costs some microseconds. This is short enough for the device to begin early, and far
// below the limits of watchdogs.
constexpr double kSubmissionMicroseconds = 5'000;
constexpr std::size_t kLaunchesOfSubmission = 48;
// Maximum number of pending submissions; each keeps its resources alive.
constexpr std::size_t kSubmissionsInFlight = 8;
// Bytes per microsecond that even slow devices move, and the overhead of a launch.
constexpr double kDeviceRate = 100'000, kSoftwareRate = 2'000, kLaunchMicroseconds = 5;

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

vk::CommandList& VulkanRecorder::open() {
  if (!list_) {
    list_ = std::make_shared<vk::CommandList>(device_->command_list("arrays"));
    if (timing_) stamp(true);
  }
  return *list_;
}

/// All words that the argument touches, from the last aligned byte before it; with guard zones, the
/// adjacent words, too, so that writes to them are detected.
vk::Binding VulkanRecorder::bind(const Argument& a, std::uint32_t& first, Use& use) const {
  const VulkanMemory& memory = as_vulkan(a.memory);
  const std::uint64_t alignment =
      std::max<std::uint64_t>(device_->limits().storage_buffer_offset_alignment, a.element);
  const std::uint64_t zone = std::min<std::uint64_t>(memory.front(), 256);
  const std::uint64_t begin = memory.front() + a.offset;
  const std::uint64_t end = begin + std::max<std::uint64_t>(a.bytes, a.element);
  const std::uint64_t from = (begin - zone) / alignment * alignment;
  const std::uint64_t to = std::min({(end + zone + 3) / 4 * 4, memory.buffer().size(),
                                     from + device_->limits().max_storage_buffer_range});
  first = static_cast<std::uint32_t>((begin - from) / a.element);
  use = {&a.memory, {from, to, a.access != Access::read}};
  return {&memory.buffer(), from, to - from};
}

/// Records a barrier if memory used now was written, or memory written now was used.
void VulkanRecorder::order(std::span<const Use> uses) {
  const auto conflicts = [&](const Use& use) {
    const auto found = ranges_.find(&as_vulkan(*use.memory));
    if (found == ranges_.end()) return false;
    return std::ranges::any_of(found->second, [&](const Range& r) {
      return (r.written || use.range.written) && r.begin < use.range.end && use.range.begin < r.end;
    });
  };
  if (std::ranges::any_of(uses, conflicts)) {
    open().barrier();
    ++barriers_;
    for (auto& [memory, ranges] : ranges_) ranges.clear();
  }
  for (const Use& use : uses) {
    const auto [entry, fresh] = ranges_.try_emplace(&as_vulkan(*use.memory));
    if (fresh) used_.push_back(*use.memory);
    entry->second.push_back(use.range);
  }
}

void VulkanRecorder::recorded(std::uint64_t bytes) {
  const double rate = device_->info().software() ? kSoftwareRate : kDeviceRate;
  estimate_us_ += kLaunchMicroseconds + static_cast<double>(bytes) / rate;
  ++in_list_;
  if (estimate_us_ > kSubmissionMicroseconds || in_list_ >= kLaunchesOfSubmission) flush();
}

void VulkanRecorder::launch(const Launch& launch) {
  check(launch, device_->limits());
  const vk::Kernel kernel = kernels_.make(*launch.kernel).first;
  std::array<vk::Binding, 32> bindings;
  std::array<std::uint32_t, 32> push{};
  std::array<Use, 32> uses;
  const std::size_t count = launch.arguments.size();
  std::uint64_t bytes = 0;
  for (std::size_t k = 0; k < count; ++k) {
    bindings[k] = bind(launch.arguments[k], push[k], uses[k]);
    bytes += launch.arguments[k].bytes;
  }
  std::ranges::copy(launch.words, push.begin() + static_cast<std::ptrdiff_t>(count) + 1);
  const std::size_t words = count + 1 + launch.words.size();
  order(std::span(uses).first(count));
  open().dispatch(kernel, std::span(bindings).first(count),
                  std::as_bytes(std::span(push).first(words)),
                  vk::Groups{launch.groups.x, launch.groups.y, launch.groups.z});
  ++launches_;
  recorded(bytes);
}

void VulkanRecorder::copy(const std::shared_ptr<Memory>& from, std::uint64_t from_offset,
                          const std::shared_ptr<Memory>& to, std::uint64_t to_offset,
                          std::uint64_t bytes) {
  const VulkanMemory& source = as_vulkan(from);
  const VulkanMemory& target = as_vulkan(to);
  const std::uint64_t a = source.front() + from_offset, b = target.front() + to_offset;
  order(std::array{Use{&from, {a, a + bytes, false}}, Use{&to, {b, b + bytes, true}}});
  open().copy(source.buffer(), a, target.buffer(), b, bytes);
  recorded(2 * bytes);
}

void VulkanRecorder::fill(const std::shared_ptr<Memory>& to, std::uint64_t offset,
                          std::uint64_t bytes, std::uint32_t word) {
  const VulkanMemory& target = as_vulkan(to);
  const std::uint64_t begin = target.front() + offset;
  order(std::array{Use{&to, {begin, begin + bytes, true}}});
  open().fill(target.buffer(), begin, bytes, word);
  recorded(bytes);
}

void VulkanRecorder::flush() {
  if (!list_) return;
  if (timing_) stamp(false);
  const vk::Submission submission = device_->submit(*list_);
  for (const auto& memory : used_) as_vulkan(memory).last = submission;
  for (Timing& timing : unsettled_) {
    if (timing.submitted) continue;
    timing.submission = submission;
    timing.submitted = true;
  }
  ranges_.clear();
  used_.clear();
  list_ = nullptr;
  estimate_us_ = 0;
  in_list_ = stamps_ = 0;
  in_flight_.push_back(submission);
  if (in_flight_.size() > kSubmissionsInFlight) {
    in_flight_.front().wait();
    in_flight_.pop_front();
  }
  settle();
}

void VulkanRecorder::finish() {
  flush();
  for (; !in_flight_.empty(); in_flight_.pop_front()) in_flight_.front().wait();
  settle();
}

void VulkanRecorder::stamp(bool begin) {
  if (!device_->features().timestamps) return;
  list_->write_timestamp(begin ? "begin" : "end");
  if (begin) {
    spans_.push_back({list_, stamps_, stamps_});
  } else {
    spans_.back().to = stamps_;
  }
  ++stamps_;
}

bool VulkanRecorder::begin_timing() {
  if (timing_) return false;
  spans_.clear();
  if (!device_->features().timestamps) {
    finish();
    timing_began_ = std::chrono::steady_clock::now();
  }
  timing_ = true;
  if (list_) stamp(true);
  return true;
}

void VulkanRecorder::end_timing(std::function<void(std::optional<double>)> done) {
  if (list_) stamp(false);
  timing_ = false;
  std::optional<double> wall_us;
  if (!device_->features().timestamps) {
    finish();
    const auto passed = std::chrono::steady_clock::now() - timing_began_;
    wall_us = std::chrono::duration<double, std::micro>(passed).count();
  }
  tell_when_done(std::exchange(spans_, {}), wall_us, std::move(done));
}

void VulkanRecorder::when_done(std::function<void(std::optional<double>)> done) {
  tell_when_done({}, {}, std::move(done));
}

void VulkanRecorder::tell_when_done(std::vector<Span> spans, std::optional<double> wall_us,
                                    std::function<void(std::optional<double>)> done) {
  const bool open_list = list_ != nullptr;
  Timing timing{std::move(spans), wall_us, std::move(done), {}, !open_list};
  if (!open_list && !in_flight_.empty()) timing.submission = in_flight_.back();
  unsettled_.push_back(std::move(timing));
  settle();
}

std::optional<double> VulkanRecorder::time_of(const Timing& timing) {
  std::optional<double> sum = timing.wall_us;
  for (const Span& span : timing.spans) {
    const std::vector<vk::Timestamp> stamps = span.list->timestamps();
    if (span.to >= stamps.size()) continue;
    sum = sum.value_or(0) + stamps[span.to].microseconds - stamps[span.from].microseconds;
  }
  return sum;
}

void VulkanRecorder::settle() {
  const auto settled = [](const Timing& timing) {
    return timing.submitted && timing.submission.done();
  };
  while (!unsettled_.empty() && settled(unsettled_.front())) {
    const Timing timing = std::move(unsettled_.front());
    unsettled_.pop_front();
    timing.done(time_of(timing));
  }
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
