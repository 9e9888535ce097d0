// Internal: the first kernel that a software device compiles.
#pragma once

namespace topograd::runtime::vulkan {

class Core;

/// Has a software device compile a kernel that no cache knows, and run it. Its compiler makes its
/// static objects on the way, on a thread of the driver's own: LoadingLibraries lives meanwhile.
///
/// Failures are ignored: the next call of the driver meets them again.
void compile_first(const Core& core);

}  // namespace topograd::runtime::vulkan
