// Internal: what lives in Vulkan drivers, in builds with and without them.
#pragma once

#include <cstdint>

namespace topograd::check {

/// Counts from the next device on.
void watch_driver_objects();
/// Objects that live there; 0 before it.
std::uint64_t driver_objects();
/// Bytes that open devices of this process have reserved.
std::uint64_t driver_bytes();
/// Lets go of devices that nobody uses.
void let_go_of_devices();

}  // namespace topograd::check
