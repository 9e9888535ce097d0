// Source of a kernel in the formats that need the shader compiler.
#pragma once

#include "../codegen/kernel.hpp"
#include "../runtime/kernel_listing.hpp"

#include <string>

namespace topograd {

/// `format` is spirv (disassembly), hlsl, msl or essl. Throws Error{Unsupported} if a dialect
/// cannot express the kernel, or in a build without Vulkan.
std::string compiled_source(const codegen::KernelSource& kernel, const std::string& format);
/// The same for a listed kernel.
std::string compiled_source(const runtime::ListedKernel& kernel, const std::string& format);

}  // namespace topograd
