// Internal: open devices, and their end with the process.
#pragma once

#include <memory>

namespace topograd::runtime::vulkan {

class Device;
struct DeviceOptions;

/// Returns the open device for equal options, or null.
std::shared_ptr<Device> find_open(const DeviceOptions& options);

// Software devices compile kernels on their own threads at the first run. The compiler creates
// static objects meanwhile, which exit() destroys in the opposite order.

/// Makes this thread wait for such compilers when it ends: it may be the one that ends the process,
/// and thread-local objects are destroyed before all static objects.
void outlive_driver_compiler();
/// Call after a driver has compiled: devices then end before its compiler's static objects.
void note_driver_compiled();

}  // namespace topograd::runtime::vulkan
