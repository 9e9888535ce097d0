// Internal: devices that are open, and their end with the process.
#pragma once

#include <memory>

namespace topograd::runtime::vulkan {

class Device;
struct DeviceOptions;

/// The device that is open for equal options, or null.
std::shared_ptr<Device> find_open(const DeviceOptions& options);

// Software devices compile kernels on threads of their own where they run first, with static
// objects that the compiler makes on the way, and that are destroyed in the opposite order at
// exit().

/// This thread waits for such compilers when it ends: it may be the one that ends the process, and
/// what is destroyed at the end of a thread goes before all static objects.
void outlive_driver_compiler();
/// A driver has compiled: the devices' end comes before that of what it made for it.
void note_driver_compiled();

}  // namespace topograd::runtime::vulkan
