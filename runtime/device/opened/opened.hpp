// Internal: open devices, the first kernel of a software device, and the end of the process.
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

class Core;

/// Makes a software device compile and run a kernel that no cache has. Its compiler creates static
/// objects meanwhile, on a thread of the driver: keep a LoadingLibraries alive during the call.
///
/// Failures are ignored: the next driver call reports them again.
void compile_first(const Core& core);

}  // namespace topograd::runtime::vulkan
