// Internal: the first kernel that a software device compiles.
#pragma once

namespace topograd::runtime::vulkan {

class Core;

/// Makes a software device compile and run a kernel that no cache has. Its compiler creates static
/// objects meanwhile, on a thread of the driver: keep a LoadingLibraries alive during the call.
///
/// Failures are ignored: the next driver call reports them again.
void compile_first(const Core& core);

}  // namespace topograd::runtime::vulkan
