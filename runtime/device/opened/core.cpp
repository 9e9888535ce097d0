// Creation of the logical device with what exists and is not masked; its queue; its staging.
#include "core.hpp"

#include "../../../ir/machine/parallel.hpp"
#include "../device.hpp"
#include "../driver/instance.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

namespace topograd::runtime::vulkan {
namespace {

using Clock = std::chrono::steady_clock;

// Interval at which a long wait checks for progress.
constexpr std::chrono::nanoseconds kSlice = std::chrono::milliseconds(100);

// A thread that the driver puts to sleep is woken tens of microseconds after the end of the work,
// which is longer than many evaluations take. So waits begin with looking at the timeline.
constexpr std::chrono::nanoseconds kPatience = std::chrono::milliseconds(1);

// Compile times of the software device at a kernel's first run: 12 to 200 ms on a quiet machine,
// and 250 to 300 ms per thousand words of long ones (KernelState::first_runs).
constexpr double kSecondsToCompile = 2;

}  // namespace

void Queue::start() {
  queue_ = core_.device.getQueue(core_.family, 0);
  core_.set_name(queue_, "topograd_queue");
  // A driver without hardware has no memory, compiles, and runs nothing.
  if (core_.physical.getMemoryProperties().memoryTypeCount == 0) return;
  const vk::SemaphoreTypeCreateInfo type(vk::SemaphoreType::eTimeline, 0);
  timeline_ = core_.driver.call("vkCreateSemaphore", [&] {
    return core_.device.createSemaphore(vk::SemaphoreCreateInfo({}, &type));
  });
  core_.set_name(timeline_, "topograd_timeline");
  core_.driver.set_probe([this] {
    try {
      (void)timeline_.getCounterValue();
      return vk::Result::eSuccess;
    } catch (const vk::SystemError& error) {
      return static_cast<vk::Result>(error.code().value());
    }
  });
}

std::uint64_t Queue::submit(std::span<const Work> works, LiveTransfers& account) {
  std::vector<vk::CommandBuffer> commands;
  InFlight flight;
  for (const Work& work : works) {
    commands.push_back(work.commands);
    flight.keep.push_back(work.keep);
    flight.first_runs += work.first_runs;
  }
  if (flight.first_runs > 0) outlive_driver_compiler();
  const std::lock_guard lock(mutex_);
  flight.value = last_ + 1;
  const vk::TimelineSemaphoreSubmitInfo values({}, flight.value);
  const vk::SubmitInfo info({}, {}, commands, *timeline_, &values);
  in_flight_.push_back(std::move(flight));
  try {
    core_.driver.call("vkQueueSubmit", [&] { queue_.submit(info); });
  } catch (const Error&) {
    if (!core_.driver.lost()) in_flight_.pop_back();
    throw;
  }
  ++last_;
  account.add({.submissions = 1});
  for (const Work& work : works) {
    for (const auto& buffer : work.buffers) buffer->last_use = last_.load();
  }
  return last_;
}

std::uint64_t Queue::completed() {
  return core_.driver.call("vkGetSemaphoreCounterValue",
                           [&] { return timeline_.getCounterValue(); });
}

double Queue::own_bound() const {
  std::uint64_t compiling = 0;
  const std::lock_guard lock(mutex_);
  if (core_.info.software()) {
    for (const InFlight& flight : in_flight_) compiling += flight.first_runs;
  }
  return core_.options.timeout_seconds + kSecondsToCompile * static_cast<double>(compiling);
}

void Queue::wait(std::uint64_t value, double bound_seconds) {
  if (bound_seconds <= 0) bound_seconds = own_bound();
  const vk::SemaphoreWaitInfo info({}, *timeline_, value);
  const auto bound = std::chrono::duration<double>(bound_seconds);
  Clock::time_point progress = Clock::now();
  std::uint64_t seen = completed();
  if (!core_.info.software()) {
    while (seen < value && Clock::now() - progress < kPatience) {
      std::this_thread::yield();
      seen = completed();
    }
  }
  while (seen < value) {
    const auto left = bound - (Clock::now() - progress);
    if (left <= left.zero()) {
      throw Error(ErrorCode::Timeout,
                  "vulkan: device \"" + core_.info.name + "\" finished nothing for " +
                      std::to_string(bound_seconds) + " s (at submission " + std::to_string(seen) +
                      ", waiting for " + std::to_string(value) + ")");
    }
    const auto slice = std::min<std::chrono::duration<double, std::nano>>(kSlice, left);
    (void)core_.driver.call("vkWaitSemaphores", [&] {
      return core_.device.waitSemaphores(info, static_cast<std::uint64_t>(slice.count()) + 1);
    });
    const std::uint64_t now = completed();
    if (now > seen) progress = Clock::now();
    seen = now;
  }
  reap(seen);
}

void Queue::reap(std::uint64_t completed) {
  // Declared before the lock, so destroyed after it: released objects return memory to the pools.
  std::vector<InFlight> finished;
  const std::lock_guard lock(mutex_);
  std::uint64_t compiled = 0;
  while (!in_flight_.empty() && in_flight_.front().value <= completed) {
    compiled += in_flight_.front().first_runs;
    finished.push_back(std::move(in_flight_.front()));
    in_flight_.pop_front();
  }
  if (compiled > 0 && core_.info.software()) note_driver_compiled();
}

bool Queue::reached(std::uint64_t value) const noexcept {
  if (value == 0) return true;  // nothing was submitted
  try {
    return timeline_.getCounterValue() >= value;
  } catch (const vk::DeviceLostError&) {
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

namespace {

// Copies of whole cache lines are faster, and some devices require them.
constexpr std::uint64_t kStagingAlignment = 64;

std::shared_ptr<BufferState> ring_memory(Core& core, MemoryKind kind) {
  return core.memory.take(
      Ring::kSegmentBytes * Ring::kSegments, kind,
      kind == MemoryKind::Upload ? "topograd_upload_ring" : "topograd_readback_ring");
}

void record_copy(const Batch& batch, const BufferState& source, const BufferState& target,
                 vk::BufferCopy region) {
  batch.commands.copyBuffer(*source.slot.buffer, *target.slot.buffer, region);
}

void remember(const Batch& batch, const std::shared_ptr<BufferState>& state) {
  if (batch.buffers->empty() || batch.buffers->back() != state) batch.buffers->push_back(state);
}

std::uint64_t aligned(std::uint64_t bytes) {
  return (bytes + kStagingAlignment - 1) / kStagingAlignment * kStagingAlignment;
}

/// Copies to memory of the device, on all threads: one thread writes across the bus at a fraction
/// of its rate. The caller holds a lock, so this thread takes no other work meanwhile.
void copy_up(std::byte* to, std::span<const std::byte> from) {
  constexpr std::size_t kPiece = std::size_t{1} << 18;
  if (from.size() < 4 * kPiece || ir::pool_is_lost()) {
    std::memcpy(to, from.data(), from.size());
    return;
  }
  ir::isolated([&] {
    ir::parallel_pieces(from.size(), kPiece, [&](std::size_t begin, std::size_t end) {
      std::memcpy(to + begin, from.data() + begin, end - begin);
    });
  });
}

}  // namespace

std::uint64_t Staging::submit(std::span<const Work> works, LiveTransfers& account) {
  const std::lock_guard lock(mutex_);
  return submit_locked(works, account);
}

std::uint64_t Staging::submit_locked(std::span<const Work> works, LiveTransfers& account) {
  std::vector<Work> all;
  if (pending_) {
    end(*pending_);
    all.push_back({*pending_->commands, pending_->buffers, *pending_->buffers});
  }
  all.insert(all.end(), works.begin(), works.end());
  if (all.empty()) return core_.queue.last();
  const std::uint64_t value = core_.queue.submit(all, account);
  if (pending_) {
    up_.busy_until[up_.segment] = value;
    submitted(pending_, value);
  }
  return value;
}

void Staging::end(Batch& batch) {
  if (batch.ended) return;
  record_host_barrier(batch.commands);
  core_.driver.call("vkEndCommandBuffer", [&] { batch.commands.end(); });
  batch.ended = true;
}

void Staging::submitted(std::shared_ptr<Batch>& batch, std::uint64_t value) {
  batch->value = value;
  batch->buffers = nullptr;
  idle_.push_back(std::move(batch));
  batch = nullptr;
}

// Returns a command buffer whose last submission has finished, or a new one; recording has begun.
std::shared_ptr<Batch> Staging::take_batch() {
  const std::uint64_t completed = core_.queue.completed();
  const auto free =
      std::ranges::find_if(idle_, [&](const auto& idle) { return idle->value <= completed; });
  std::shared_ptr<Batch> batch;
  if (free != idle_.end()) {
    batch = std::move(*free);
    idle_.erase(free);
    core_.driver.call("vkResetCommandPool", [&] { batch->pool.reset(); });
    batch->written.clear();
    batch->ended = false;
  } else {
    batch = std::make_shared<Batch>();
    std::tie(batch->pool, batch->commands) = make_commands(core_);
    core_.set_name(batch->pool, "topograd_staging");
    core_.set_name(batch->commands, "topograd_staging");
  }
  batch->buffers = std::make_shared<std::vector<std::shared_ptr<BufferState>>>();
  core_.driver.call("vkBeginCommandBuffer", [&] {
    batch->commands.begin({vk::CommandBufferUsageFlagBits::eOneTimeSubmit});
  });
  record_barrier(batch->commands);
  return batch;
}

Batch& Staging::open_batch(LiveTransfers& account) {
  if (pending_ && pending_->ended) submit_locked({}, account);
  if (!pending_) {
    core_.queue.reap(core_.queue.completed());
    pending_ = take_batch();
  }
  return *pending_;
}

void Staging::upload(const Upload& piece, LiveTransfers& account) {
  const auto& state = checked_state("upload", core_, piece.buffer);
  check_range("upload", *state, piece.offset, piece.bytes.size());
  if (piece.bytes.empty()) return;
  core_.driver.check_lost();
  const std::lock_guard lock(mutex_);
  if (!write_directly(piece)) stage(piece, account);
  account.add({.bytes_up = piece.bytes.size()});
}

bool Staging::write_directly(const Upload& piece) {
  const BufferState& state = *piece.buffer->state();
  if (state.mapped == nullptr) return false;
  const std::uint64_t last_use = state.last_use;
  if (last_use == BufferState::kPending || last_use > core_.queue.completed()) return false;
  copy_up(state.mapped + piece.offset, piece.bytes);
  return true;
}

void Staging::stage(const Upload& piece, LiveTransfers& account) {
  const auto& state = piece.buffer->state();
  if (!up_.memory) up_.memory = ring_memory(core_, MemoryKind::Upload);
  std::uint64_t done = 0;
  bool first = true;
  while (done < piece.bytes.size()) {
    if (up_.room() == 0) rotate_upload(account);
    Batch& batch = open_batch(account);
    const bool written = !batch.written.insert(state.get()).second;
    if (first && written) {
      // An earlier piece of this batch may have written the same bytes.
      record_barrier(batch.commands);
      batch.written = {state.get()};
    }
    first = false;
    const std::uint64_t size = std::min<std::uint64_t>(up_.room(), piece.bytes.size() - done);
    copy_up(up_.memory->mapped + up_.offset(), piece.bytes.subspan(done, size));
    record_copy(batch, *up_.memory, *state, {up_.offset(), piece.offset + done, size});
    up_.used = std::min(up_.used + aligned(size), Ring::kSegmentBytes);
    remember(batch, state);
    state->last_use = BufferState::kPending;
    done += size;
  }
}

// Moves to the next segment, once the device no longer reads it.
void Staging::rotate_upload(LiveTransfers& account) {
  submit_locked({}, account);
  up_.segment = (up_.segment + 1) % Ring::kSegments;
  up_.used = 0;
  core_.queue.wait(up_.busy_until[up_.segment]);
}

void Staging::download(std::span<const Download> pieces, LiveTransfers& account) {
  for (const Download& piece : pieces) {
    const auto& state = checked_state("download", core_, piece.buffer);
    check_range("download", *state, piece.offset, piece.bytes.size());
    account.add({.bytes_down = piece.bytes.size()});
  }
  core_.driver.check_lost();
  submit({}, account);
  std::vector<Download> staged;
  for (const Download& piece : pieces) {
    if (!piece.bytes.empty() && !read_directly(piece)) staged.push_back(piece);
  }
  if (!staged.empty()) download_staged(staged, account);
}

bool Staging::read_directly(const Download& piece) {
  const BufferState& state = *piece.buffer->state();
  // The processor reads uncached device memory far slower than a copy does.
  if (state.mapped == nullptr || !state.cached) return false;
  const std::uint64_t last_use = state.last_use;
  core_.queue.wait(last_use == BufferState::kPending ? core_.queue.last() : last_use);
  std::memcpy(piece.bytes.data(), state.mapped + piece.offset, piece.bytes.size());
  return true;
}

void Staging::download_staged(std::span<const Download> pieces, LiveTransfers& account) {
  const std::lock_guard lock(down_mutex_);
  if (!down_.memory) down_.memory = ring_memory(core_, MemoryKind::Readback);
  for (auto& readbacks : readbacks_) readbacks.clear();
  std::shared_ptr<Batch> batch;
  for (const Download& piece : pieces) {
    const auto& state = piece.buffer->state();
    std::uint64_t done = 0;
    while (done < piece.bytes.size()) {
      if (down_.room() == 0) finish_segment(batch, account);
      if (!batch) {
        const std::lock_guard order(mutex_);
        batch = take_batch();
      }
      const std::uint64_t size = std::min<std::uint64_t>(down_.room(), piece.bytes.size() - done);
      record_copy(*batch, *state, *down_.memory, {piece.offset + done, down_.offset(), size});
      remember(*batch, state);
      readbacks_[down_.segment].push_back({down_.offset(), piece.bytes.subspan(done, size)});
      down_.used = std::min(down_.used + aligned(size), Ring::kSegmentBytes);
      done += size;
    }
  }
  for (std::size_t i = 0; i < Ring::kSegments; ++i) finish_segment(batch, account);
}

// Submits the copies into the current segment and reads back those of the next one.
void Staging::finish_segment(std::shared_ptr<Batch>& batch, LiveTransfers& account) {
  if (batch) {
    end(*batch);
    const Work work{*batch->commands, batch->buffers, *batch->buffers};
    const std::lock_guard order(mutex_);
    down_.busy_until[down_.segment] = submit_locked({&work, 1}, account);
    submitted(batch, down_.busy_until[down_.segment]);
  }
  down_.segment = (down_.segment + 1) % Ring::kSegments;
  down_.used = 0;
  land(down_.segment);
}

void Staging::land(std::size_t segment) {
  if (readbacks_[segment].empty()) return;
  core_.queue.wait(down_.busy_until[segment]);
  for (const Readback& readback : readbacks_[segment]) {
    std::memcpy(readback.target.data(), down_.memory->mapped + readback.offset,
                readback.target.size());
  }
  readbacks_[segment].clear();
}

namespace {

// Change it with the layout or contents of cached blobs.
constexpr const char* kGenerator = "topograd-vulkan-1";

std::string identity(const DeviceInfo& info) {
  std::string text = info.name + "\n" + info.driver + "\n" + info.driver_version + "\n" +
                     info.api_version + "\n" + std::to_string(info.vendor_id) + "\n" +
                     std::to_string(info.device_id) + "\n";
  text.append(info.uuid.begin(), info.uuid.end());
  text.append(info.driver_uuid.begin(), info.driver_uuid.end());
  return text;
}

/// The feature structures of one vkCreateDevice, chained where their extension is enabled.
struct Enabled {
  vk::PhysicalDeviceFeatures2 core;
  vk::PhysicalDeviceVulkan12Features core12;
  vk::PhysicalDeviceShaderAtomicFloatFeaturesEXT atomics;
  vk::PhysicalDevicePipelineExecutablePropertiesFeaturesKHR executable;
  vk::PhysicalDeviceCooperativeMatrixFeaturesNV matrix;
  std::vector<const char*> extensions;

  explicit Enabled(const Features& wanted, bool subgroup_extended_types);
  Enabled(const Enabled&) = delete;
  Enabled& operator=(const Enabled&) = delete;

  template <class Struct>
  void chain(Struct& part, const char* extension) {
    part.pNext = core12.pNext;
    core12.pNext = &part;
    extensions.push_back(extension);
  }
};

Enabled::Enabled(const Features& wanted, bool subgroup_extended_types) {
  core.pNext = &core12;
  core.features.shaderFloat64 = wanted.float64;
  core.features.shaderInt64 = wanted.int64;
  core12.timelineSemaphore = true;
  core12.shaderBufferInt64Atomics = wanted.int64_atomics;
  core12.shaderSubgroupExtendedTypes = wanted.subgroup_basic && subgroup_extended_types;
  if (wanted.atomic_float32_add || wanted.atomic_float64_add) {
    // The layers and the specification require plain atomics along with the additions.
    atomics.shaderBufferFloat32AtomicAdd = wanted.atomic_float32_add;
    atomics.shaderBufferFloat64AtomicAdd = wanted.atomic_float64_add;
    chain(atomics, VK_EXT_SHADER_ATOMIC_FLOAT_EXTENSION_NAME);
  }
  if (wanted.pipeline_executable_properties) {
    executable.pipelineExecutableInfo = true;
    chain(executable, VK_KHR_PIPELINE_EXECUTABLE_PROPERTIES_EXTENSION_NAME);
  }
  if (wanted.cooperative_matrix) {
    matrix.cooperativeMatrix = true;
    // Modules with such matrices use f16 and declare the memory model, which then applies to all:
    // atomics have device scope.
    core12.shaderFloat16 = core12.vulkanMemoryModel = core12.vulkanMemoryModelDeviceScope = true;
    chain(matrix, VK_NV_COOPERATIVE_MATRIX_EXTENSION_NAME);
  }
  if (wanted.memory_budget) extensions.push_back(VK_EXT_MEMORY_BUDGET_EXTENSION_NAME);
}

bool has_subgroup_extended_types(const vk::raii::PhysicalDevice& physical) {
  const auto chain =
      physical.getFeatures2<vk::PhysicalDeviceFeatures2, vk::PhysicalDeviceVulkan12Features>();
  return chain.get<vk::PhysicalDeviceVulkan12Features>().shaderSubgroupExtendedTypes;
}

}  // namespace

bool has_subgroup_shuffle(const Device& device) {
  if (!device.features().subgroup_basic) return false;
  const auto chain =
      device.core()
          ->physical
          .getProperties2<vk::PhysicalDeviceProperties2, vk::PhysicalDeviceVulkan11Properties>();
  constexpr auto kWanted =
      vk::SubgroupFeatureFlagBits::eBallot | vk::SubgroupFeatureFlagBits::eShuffle;
  const auto there = chain.get<vk::PhysicalDeviceVulkan11Properties>().subgroupSupportedOperations;
  return (there & kWanted) == kWanted;
}

DiskCacheOptions disk_cache_options(const DeviceOptions& options, const DeviceInfo& info) {
  return {.folder = options.cache_dir, .generator = kGenerator, .identity = identity(info)};
}

Core::Core(std::shared_ptr<Instance> shared_instance, vk::raii::PhysicalDevice physical_device,
           DeviceInfo device_info, DeviceOptions device_options)
    : options(std::move(device_options)),
      info(std::move(device_info)),
      instance(std::move(shared_instance)),
      physical(std::move(physical_device)),
      disk_cache(disk_cache_options(options, info)),
      memory(*this),
      kernels(*this),
      staging(*this),
      spare_lists(*this),
      queue(*this) {
  driver.set_device_name("device \"" + info.name + "\"");
  create_device();
  memory.start();
  kernels.start();
  queue.start();
}

Core::~Core() {
  try {
    kernels.save();
    // All work has ended (see retire), so this returns at once, but threads of layers catch up.
    if (!driver.lost() && queue.last() > 0) device.waitIdle();
  } catch (const std::exception&) {
    // Ignored: a missing cache costs a cold start, and a failing device is closed anyway.
  }
}

void Core::create_device() {
  family = compute_family(physical).value_or(0);
  timestamp_bits = physical.getQueueFamilyProperties()[family].timestampValidBits;
  Enabled enabled(info.features, has_subgroup_extended_types(physical));
  KhrMatrixFeatures matrices;
  if (has_khr_matrices(physical, info.features, options)) {
    matrices.cooperativeMatrix = VK_TRUE;
    enabled.chain(matrices, KhrMatrixFeatures::kExtension);
  }
  if (import_alignment(physical, info.features) > 0)
    enabled.extensions.push_back(VK_EXT_EXTERNAL_MEMORY_HOST_EXTENSION_NAME);
  const float priority = 1.0f;
  const vk::DeviceQueueCreateInfo queue_info({}, family, 1, &priority);
  vk::DeviceCreateInfo create_info({}, queue_info, {}, enabled.extensions);
  create_info.pNext = &enabled.core;
  device = driver.call("vkCreateDevice", [&] { return physical.createDevice(create_info); });
  set_name(device, "topograd_device");
}

void Core::set_name(vk::ObjectType type, std::uint64_t handle, const std::string& name) {
  if (!instance->debug_utils() || name.empty()) return;
  try {
    driver.call("vkSetDebugUtilsObjectNameEXT", [&] {
      device.setDebugUtilsObjectNameEXT(
          vk::DebugUtilsObjectNameInfoEXT(type, handle, name.c_str()));
    });
  } catch (const Error&) {
    // Names are for profilers. A device loss shows in the next call.
  }
}

namespace {

/// Slightly more than one thread's lists in flight.
constexpr std::size_t kMost = 16;

}  // namespace

ListParts SpareLists::take() {
  ListParts parts;
  {
    const std::lock_guard lock(mutex_);
    if (!spare_.empty()) {
      parts = std::move(spare_.back());
      spare_.pop_back();
    }
  }
  if (*parts.pool) {
    core_.driver.call("vkResetCommandPool", [&] { parts.pool.reset(); });
    if (parts.descriptors) parts.descriptors->reset();
  } else {
    std::tie(parts.pool, parts.commands) = make_commands(core_);
  }
  return parts;
}

void SpareLists::give(ListParts parts) noexcept {
  // Declared before the lock, so that surplus parts are destroyed after it.
  const std::lock_guard lock(mutex_);
  if (spare_.size() >= kMost || core_.driver.lost()) return;
  try {
    spare_.push_back(std::move(parts));
  } catch (const std::bad_alloc&) {
  }
}

bool has_khr_matrices(const vk::raii::PhysicalDevice& physical, const Features& features,
                      const DeviceOptions& options) {
  if (!features.cooperative_matrix || options.validation) return false;
  const auto names = extension_names(physical);
  if (std::ranges::find(names, KhrMatrixFeatures::kExtension) == names.end()) return false;
  KhrMatrixFeatures matrices;
  VkPhysicalDeviceFeatures2 asked{
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2, .pNext = &matrices, .features = {}};
  physical.getDispatcher()->vkGetPhysicalDeviceFeatures2(static_cast<VkPhysicalDevice>(*physical),
                                                         &asked);
  return matrices.cooperativeMatrix == VK_TRUE;
}

bool has_khr_matrices(const Device& device) {
  const Core& core = *device.core();
  return has_khr_matrices(core.physical, core.info.features, core.options);
}

}  // namespace topograd::runtime::vulkan
