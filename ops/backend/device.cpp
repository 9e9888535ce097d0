// Device handles, and the common parts of backends.
#include "device.hpp"

#include "../../ir/error.hpp"
#include "backend.hpp"
#include "device_list.hpp"

#include <algorithm>
#include <optional>
#include <utility>

namespace topograd::ops {
namespace {

std::optional<std::vector<ListedDevice>>& instead() {
  static auto& devices = *new std::optional<std::vector<ListedDevice>>;
  return devices;
}

}  // namespace

void list_instead(std::vector<ListedDevice> devices) { instead() = std::move(devices); }

const std::vector<ListedDevice>& listed_devices() {
  static const auto& list =
      *new std::vector<ListedDevice>(instead() ? *instead() : devices_of_system());
  return list;
}

Device::Device() : backend_(cpu_backend()) {}

Device Device::vulkan(std::string_view which) { return open_named(which); }

Device Device::best() {
  for (const ListedDevice& listed : listed_devices()) {
    const bool wanted = listed.preferred && (listed.asked_for || !listed.facts.software());
    if (!wanted || !listed.facts.available) continue;
    try {
      return listed.open();
    } catch (const Error&) {
      // The device is listed but cannot be opened: the CPU is used.
    }
  }
  return cpu();
}

const DeviceFacts& Device::facts() const { return backend_->facts(); }
bool Device::is_cpu() const { return backend_->is_cpu(); }
void Device::synchronise() const { backend_->synchronise(); }

std::vector<DeviceFacts> list_devices() {
  std::vector<DeviceFacts> out = {cpu_backend()->facts()};
  for (const ListedDevice& listed : listed_devices()) {
    if (listed.facts.available) out.push_back(listed.facts);
  }
  return out;
}

BackendCounters BackendCounters::operator-(const BackendCounters& earlier) const {
  BackendCounters out = *this;
  out.bytes_up -= earlier.bytes_up;
  out.bytes_down -= earlier.bytes_down;
  out.launches -= earlier.launches;
  out.submissions -= earlier.submissions;
  out.barriers -= earlier.barriers;
  out.compiled -= earlier.compiled;
  out.from_disk -= earlier.from_disk;
  return out;
}

LaunchGroups linear_groups(const OpBackend& backend, const ComputeKernel& kernel,
                           std::uint64_t items) {
  const std::uint64_t size = kernel.local_size[0];
  const std::uint64_t groups = std::max<std::uint64_t>(1, (items + size - 1) / size);
  const std::uint64_t most = backend.limits().groups;
  const std::uint64_t y = (groups + most - 1) / most;
  if (items > ~std::uint32_t{0} - size || y > most) {
    throw Error(ErrorCode::Unsupported, "kernel \"" + kernel.name + "\": " + std::to_string(items) +
                                            " items are more than one launch on \"" +
                                            backend.facts().name + "\" takes");
  }
  return {static_cast<std::uint32_t>((groups + y - 1) / y), static_cast<std::uint32_t>(y), 1};
}

}  // namespace topograd::ops
