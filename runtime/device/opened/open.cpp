// Finds, opens and shares devices, and ends them; the first pipeline of a software device.
#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "../../../ir/machine/foreign_call.hpp"
#include "../../../ir/machine/platform.hpp"
#include "core.hpp"

namespace topograd::runtime::vulkan {
namespace {

/// The devices of the process. Never destroyed: at the end of the process drivers clean up better
/// than destructors that run after the drivers' own.
struct Registry {
  struct Entry {
    DeviceOptions options;
    std::weak_ptr<Device> device;
  };

  std::mutex opening;  // one device at a time: compilers inside drivers race at their start
  bool compiler_started = false;  // of software devices; guarded by `opening`
  std::mutex mutex;               // guards the next two
  std::vector<Entry> entries;
  std::shared_ptr<Device> kept;

  std::mutex cores_mutex;   // taken while the others are held
  std::vector<Core*> live;  // every core
  std::vector<Core*> busy;  // cores that lost their last handle with work in flight
};

Registry& registry() {
  static Registry& instance = *new Registry;
  return instance;
}

// Destructors do not wait: a core with work in flight is destroyed by a later call, and a core
// whose driver may no longer be called is leaked.
void retire(Core* core) {
  run_if_callable([core] {
    const bool quiet = core->queue.quiet();
    {
      const std::lock_guard lock(registry().cores_mutex);
      if (quiet) {
        std::erase(registry().live, core);
      } else {
        registry().busy.push_back(core);
      }
    }
    if (quiet) delete core;
  });
}

void sweep() {
  std::vector<Core*> cores;
  {
    const std::lock_guard lock(registry().cores_mutex);
    cores.swap(registry().busy);
  }
  for (Core* core : cores) retire(core);
}

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kLongestWaitAtEnd{60};

template <class Done>
void wait_until(const Done& done) {
  const Clock::time_point until = Clock::now() + kLongestWaitAtEnd;
  while (!done() && Clock::now() < until) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

/// Ends work in flight before the drivers' static objects are destroyed: the threads of a software
/// device run it. No new work can start. A child of fork() ends without the exit handlers of
/// drivers, which would wait for threads of the parent.
void end_devices(int status) {
  if (foreign_calls_lost()) platform::end_process_without_later_libraries(status);
  static constinit std::atomic<bool> begun{false};
  if (begun.exchange(true)) return;
  std::shared_ptr<Device> device;
  {
    const std::lock_guard lock(registry().mutex);
    device = registry().kept;
  }
  try {
    if (device) device->save_pipeline_cache();
  } catch (const std::exception&) {
    // Ignored: a cold start next time.
  }
  end_foreign_calls(status);
  std::vector<Core*> cores;
  {
    const std::lock_guard lock(registry().cores_mutex);
    cores = registry().live;
  }
  for (const Core* core : cores) wait_until([core] { return core->queue.quiet(); });
}

/// Waits for all work of software devices so far.
void finish_compiling() {
  if (foreign_calls_ended()) return;
  const std::lock_guard lock(registry().cores_mutex);  // none is destroyed meanwhile
  for (Core* core : registry().live) {
    if (!core->info.software()) continue;
    const std::uint64_t last = core->queue.last();
    wait_until([&] {
      bool reached = true;
      run_if_callable([&] { reached = core->queue.reached(last); });
      return reached;
    });
  }
}

struct AtThreadEnd {
  bool used = false;
  ~AtThreadEnd() {
    if (used) finish_compiling();
  }
};
thread_local AtThreadEnd at_thread_end;

// Usually the main thread ends the process, even if it has not used a device.
[[maybe_unused]] const bool kMainThreadWaits = at_thread_end.used = true;

std::shared_ptr<Device> find_among_open(const DeviceOptions& options) {
  const std::lock_guard lock(registry().mutex);
  std::erase_if(registry().entries, [](const auto& entry) { return entry.device.expired(); });
  for (const Registry::Entry& entry : registry().entries) {
    auto device = entry.device.lock();
    if (device && entry.options == options && !device->lost()) return device;
  }
  return nullptr;
}

/// Returns an open device with equal options except for the name by which it was requested.
std::shared_ptr<Device> find_by_another_name(DeviceOptions options, std::size_t chosen,
                                             const Instance& instance) {
  const std::lock_guard lock(registry().mutex);
  for (const Registry::Entry& entry : registry().entries) {
    auto device = entry.device.lock();
    if (!device || device->lost() || device->info().index != chosen ||
        device->core()->instance.get() != &instance)
      continue;
    options.device = entry.options.device;
    if (entry.options == options) return device;
  }
  return nullptr;
}

void keep(const DeviceOptions& options, const std::shared_ptr<Device>& device, bool fresh) {
  std::shared_ptr<Device> dropped;  // destroyed after the lock is released
  const std::lock_guard lock(registry().mutex);
  if (fresh) registry().entries.push_back({options, device});
  dropped = std::exchange(registry().kept, device);
}

void start_compiler(const Core& core) {
  if (core.info.software() && !std::exchange(registry().compiler_started, true))
    compile_first(core);
}

std::vector<DeviceInfo> describe_all(const std::vector<vk::raii::PhysicalDevice>& physical,
                                     const DeviceOptions& options) {
  std::vector<DeviceInfo> list;
  for (std::uint32_t i = 0; i < physical.size(); ++i) {
    list.push_back(describe(physical[i], i, options));
  }
  return list;
}

constexpr std::chrono::seconds kLongestWait{60};
constexpr std::chrono::microseconds kPause{100};

// layout(local_size_x = 8) in;
// layout(constant_id = 0) const uint never = 1;
// void main() { if (gl_WorkGroupID.x == never) barrier(); }
constexpr std::array<std::uint32_t, 105> kModule = {
    0x07230203, 0x00010500, 0x00070000, 0x00000012, 0x00000000, 0x00020011, 0x00000001, 0x0003000e,
    0x00000000, 0x00000001, 0x0006000f, 0x00000005, 0x00000001, 0x6e69616d, 0x00000000, 0x00000002,
    0x00060010, 0x00000001, 0x00000011, 0x00000008, 0x00000001, 0x00000001, 0x00040047, 0x00000002,
    0x0000000b, 0x0000001a, 0x00040047, 0x00000003, 0x00000001, 0x00000000, 0x00020013, 0x00000004,
    0x00030021, 0x00000005, 0x00000004, 0x00040015, 0x00000006, 0x00000020, 0x00000000, 0x00040032,
    0x00000006, 0x00000003, 0x00000001, 0x00040017, 0x00000007, 0x00000006, 0x00000003, 0x00040020,
    0x00000008, 0x00000001, 0x00000007, 0x0004003b, 0x00000008, 0x00000002, 0x00000001, 0x00020014,
    0x00000009, 0x0004002b, 0x00000006, 0x0000000a, 0x00000002, 0x0004002b, 0x00000006, 0x0000000b,
    0x00000108, 0x00050036, 0x00000004, 0x00000001, 0x00000000, 0x00000005, 0x000200f8, 0x0000000c,
    0x0004003d, 0x00000007, 0x0000000d, 0x00000002, 0x00050051, 0x00000006, 0x0000000e, 0x0000000d,
    0x00000000, 0x000500aa, 0x00000009, 0x0000000f, 0x0000000e, 0x00000003, 0x000300f7, 0x00000010,
    0x00000000, 0x000400fa, 0x0000000f, 0x00000011, 0x00000010, 0x000200f8, 0x00000011, 0x000400e0,
    0x0000000a, 0x0000000a, 0x0000000b, 0x000200f9, 0x00000010, 0x000200f8, 0x00000010, 0x000100fd,
    0x00010038};

/// Differs between processes, so that no disk cache has the kernel; never 0, the running workgroup.
std::uint32_t fresh_number() {
  const auto ticks =
      static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
  return 1 | static_cast<std::uint32_t>(ticks ^ (platform::process_id() << 20));
}

vk::raii::Pipeline make_pipeline(const vk::raii::Device& device, vk::PipelineLayout layout) {
  const vk::raii::ShaderModule module(
      device, vk::ShaderModuleCreateInfo({}, sizeof kModule, kModule.data()));
  const std::uint32_t never = fresh_number();
  const vk::SpecializationMapEntry entry(0, 0, sizeof never);
  const vk::SpecializationInfo specialization(1, &entry, sizeof never, &never);
  const vk::PipelineShaderStageCreateInfo stage({}, vk::ShaderStageFlagBits::eCompute, *module,
                                                "main", &specialization);
  return device.createComputePipeline(nullptr, vk::ComputePipelineCreateInfo({}, stage, layout));
}

/// Objects that the device uses while it compiles.
struct Submitted {
  vk::raii::PipelineLayout layout;
  vk::raii::Pipeline pipeline;
  vk::raii::CommandPool pool;
  vk::raii::CommandBuffer commands;
  vk::raii::Fence fence;

  explicit Submitted(const Core& core);
  bool done() const { return fence.getStatus() == vk::Result::eSuccess; }
};

Submitted::Submitted(const Core& core)
    : layout(core.device.createPipelineLayout({})),
      pipeline(make_pipeline(core.device, *layout)),
      pool(core.device.createCommandPool({{}, core.family})),
      commands(
          std::move(core.device.allocateCommandBuffers({*pool, vk::CommandBufferLevel::ePrimary, 1})
                        .front())),
      fence(core.device.createFence({})) {
  commands.begin({vk::CommandBufferUsageFlagBits::eOneTimeSubmit});
  commands.bindPipeline(vk::PipelineBindPoint::eCompute, *pipeline);
  commands.dispatch(1, 1, 1);
  commands.end();
  const vk::SubmitInfo info({}, {}, *commands);
  core.device.getQueue(core.family, 0).submit(info, *fence);
}

}  // namespace

std::vector<DeviceInfo> devices(const DeviceOptions& options) {
  const DeviceOptions full = resolved(options);
  const auto instance = shared_instance(full);
  return describe_all(instance->physical_devices(), full);
}

std::shared_ptr<Device> open(const DeviceOptions& options) {
  const DeviceOptions full = resolved(options);
  sweep();
  const ForeignCall permission("open");
  const std::lock_guard lock(registry().opening);
  if (auto device = find_among_open(full)) {
    keep(full, device, false);
    return device;
  }
  const auto instance = shared_instance(full);
  auto physical = instance->physical_devices();
  auto list = describe_all(physical, full);
  const std::size_t chosen = choose_device(list, full);
  if (auto device = find_by_another_name(full, chosen, *instance)) {
    keep(full, device, true);
    return device;
  }
  std::optional<LoadingLibraries> loading(std::in_place);
  std::shared_ptr<Core> core(
      new Core(instance, std::move(physical[chosen]), std::move(list[chosen]), full), retire);
  {
    const std::lock_guard cores_lock(registry().cores_mutex);
    registry().live.push_back(core.get());
  }
  start_compiler(*core);
  loading.reset();
  // It is called before the handlers of the driver and of `loading`, which were registered earlier.
  platform::at_exit(end_devices);
  auto device = std::make_shared<Device>(std::move(core));
  keep(full, device, true);
  return device;
}

std::shared_ptr<Device> find_open(const DeviceOptions& options) {
  return find_among_open(resolved(options));
}

void outlive_driver_compiler() { at_thread_end.used = true; }

void note_driver_compiled() {
  static constinit std::atomic<std::uint64_t> times{0};
  // A compiler makes its static objects in its first compilations; a handler that runs twice does
  // nothing the second time.
  if (std::has_single_bit(++times)) platform::at_exit(end_devices);
}

void release_devices() {
  std::shared_ptr<Device> dropped;
  {
    const std::lock_guard lock(registry().mutex);
    dropped = std::exchange(registry().kept, nullptr);
  }
  dropped = nullptr;
  sweep();
}

void compile_first(const Core& core) {
  const ForeignCall permission("compile_first");
  try {
    auto submitted = std::make_unique<Submitted>(core);
    const auto until = Clock::now() + kLongestWait;
    while (!submitted->done()) {
      if (Clock::now() > until) {
        (void)submitted.release();  // the device still uses it
        return;
      }
      std::this_thread::sleep_for(kPause);
    }
  } catch (const vk::SystemError&) {
    // Ignored: see the declaration.
  }
}

}  // namespace topograd::runtime::vulkan
