// Finds devices, opens them, and shares those that are open.
#include <cstdlib>

#include <topograd/runtime/vulkan/core.hpp>
#include <topograd/runtime/vulkan/opened.hpp>

namespace topograd::runtime::vulkan {
namespace {

/// The devices of the process. Never destroyed: what ends with the process, drivers end better than
/// destructors that run after the drivers' own.
struct Registry {
  struct Entry {
    DeviceOptions options;
    std::weak_ptr<Device> device;
  };

  std::mutex opening;  // one device at a time: compilers inside of drivers race while they start
  std::mutex mutex;    // guards the next three
  std::vector<Entry> entries;
  std::shared_ptr<Device> kept;
  bool exit_handler = false;

  std::mutex busy_mutex;    // taken inside of the others
  std::vector<Core*> busy;  // cores whose last handle went while work was in flight
};

Registry& registry() {
  static Registry& instance = *new Registry;
  return instance;
}

// Destructors do not wait: a core with work in flight is destroyed by a later call.
void retire(Core* core) {
  if (core->queue.quiet()) {
    delete core;
    return;
  }
  const std::lock_guard lock(registry().busy_mutex);
  registry().busy.push_back(core);
}

void sweep() {
  std::vector<Core*> cores;
  {
    const std::lock_guard lock(registry().busy_mutex);
    cores.swap(registry().busy);
  }
  for (Core* core : cores) retire(core);
}

void save_at_exit() {
  std::shared_ptr<Device> device;
  {
    const std::lock_guard lock(registry().mutex);
    device = registry().kept;
  }
  try {
    if (device) device->save_pipeline_cache();
  } catch (const std::exception&) {
    // A cold start next time.
  }
}

std::shared_ptr<Device> find_among_open(const DeviceOptions& options) {
  const std::lock_guard lock(registry().mutex);
  std::erase_if(registry().entries, [](const auto& entry) { return entry.device.expired(); });
  for (const Registry::Entry& entry : registry().entries) {
    auto device = entry.device.lock();
    if (device && entry.options == options && !device->lost()) return device;
  }
  return nullptr;
}

/// What is open for equal options but for the name that the device was asked for by.
std::shared_ptr<Device> find_by_another_name(DeviceOptions options, std::size_t chosen,
                                             const Instance& instance) {
  const std::lock_guard lock(registry().mutex);
  for (const Registry::Entry& entry : registry().entries) {
    const auto device = entry.device.lock();
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
  // Registered after the driver was loaded, so it runs before the driver's own handlers.
  if (!std::exchange(registry().exit_handler, true)) std::atexit(save_at_exit);
}

std::vector<DeviceInfo> describe_all(const std::vector<vk::raii::PhysicalDevice>& physical,
                                     const DeviceOptions& options) {
  std::vector<DeviceInfo> list;
  for (std::uint32_t i = 0; i < physical.size(); ++i) {
    list.push_back(describe(physical[i], i, options));
  }
  return list;
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
  std::shared_ptr<Core> core(
      new Core(instance, std::move(physical[chosen]), std::move(list[chosen]), full), retire);
  auto device = std::make_shared<Device>(std::move(core));
  keep(full, device, true);
  return device;
}

std::shared_ptr<Device> find_open(const DeviceOptions& options) {
  return find_among_open(resolved(options));
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

}  // namespace topograd::runtime::vulkan
