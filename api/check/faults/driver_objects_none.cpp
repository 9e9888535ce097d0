// Counts of driver objects in builds without Vulkan: always 0.
#include "driver_objects.hpp"

namespace topograd::check {

void watch_driver_objects() {}
std::uint64_t driver_objects() { return 0; }
std::uint64_t driver_bytes() { return 0; }
void let_go_of_devices() {}

}  // namespace topograd::check
