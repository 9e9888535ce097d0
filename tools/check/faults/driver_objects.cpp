// Counts through the table in front of the driver.
#include "soak.hpp"

#include "../../../runtime/device/device.hpp"
#include "../../../runtime/device/driver/faults.hpp"

namespace topograd::check {

void watch_driver_objects() { runtime::vulkan::watch_driver(); }

std::uint64_t driver_objects() {
  std::uint64_t sum = 0;
  for (const auto& [kind, count] : runtime::vulkan::live_objects()) sum += count;
  return sum;
}

std::uint64_t driver_bytes() { return runtime::vulkan::live_memory(); }

void let_go_of_devices() { runtime::vulkan::release_devices(); }

}  // namespace topograd::check
