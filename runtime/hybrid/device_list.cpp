// Devices by number and name, and the reopening of lost ones.
#include "device_list.hpp"

#include "../../ir/machine/foreign_call.hpp"

#include <algorithm>
#include <utility>

namespace topograd::runtime::hybrid {

ExecutorDevice::ExecutorDevice(std::unique_ptr<DeviceBackend> backend,
                               const Capabilities& capabilities, std::string name)
    : backend_(std::move(backend)),
      available_(capabilities.available),
      name_(std::move(name)),
      driver_(capabilities.available ? capabilities.driver : std::string()) {}

DeviceBackend& ExecutorDevice::ready() {
  if (lost_) {
    const ForeignCall permission("reopen");
    const std::lock_guard lock(reopening_);
    if (lost_) backend_->reopen();
    lost_ = false;
  }
  return *backend_;
}

std::size_t DeviceList::add(std::unique_ptr<DeviceBackend> backend,
                            const Capabilities& capabilities, Scheduler& scheduler) {
  const std::lock_guard lock(mutex_);
  const auto taken = [&](const std::string& name) {
    return std::ranges::find(devices_, name, &ExecutorDevice::name) != devices_.end();
  };
  std::string name = capabilities.name;
  for (int k = 2; taken(name); ++k) name = capabilities.name + " #" + std::to_string(k);
  const ExecutorDevice& device = devices_.emplace_back(std::move(backend), capabilities, name);
  return scheduler.add_device({.name = name,
                               .software = capabilities.kind == "software",
                               .available = capabilities.available,
                               .memory_bytes = capabilities.memory_bytes,
                               .free_bytes = [b = &device.backend()] { return b->free_bytes(); }});
}

ExecutorDevice& DeviceList::at(std::size_t target) const {
  const std::lock_guard lock(mutex_);
  return devices_.at(target - 1);
}

std::vector<ExecutorDevice*> DeviceList::all() const {
  const std::lock_guard lock(mutex_);
  std::vector<ExecutorDevice*> out;
  for (ExecutorDevice& one : devices_) out.push_back(&one);
  return out;
}

std::size_t DeviceList::find(std::string_view name) const {
  const std::vector<ExecutorDevice*> devices = all();
  const auto found = std::ranges::find(devices, name, &ExecutorDevice::name);
  return found == devices.end() ? kCpu : static_cast<std::size_t>(found - devices.begin()) + 1;
}

const std::string& DeviceList::name_of(std::size_t target) const {
  static const std::string& cpu = *new std::string("cpu");
  return target == kCpu ? cpu : at(target).name();
}

}  // namespace topograd::runtime::hybrid
