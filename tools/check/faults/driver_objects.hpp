// Internal: counts objects in Vulkan drivers; also for builds without Vulkan.
#pragma once

#include <cstdint>

namespace topograd::check {

/// Starts counting with the next device.
void watch_driver_objects();
/// Number of existing objects; 0 before watch_driver_objects().
std::uint64_t driver_objects();
/// Bytes that open devices of this process have reserved.
std::uint64_t driver_bytes();
/// Releases devices that nobody uses.
void let_go_of_devices();

}  // namespace topograd::check
