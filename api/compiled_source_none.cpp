// Compiled forms of a kernel in a build without Vulkan.
#include <topograd/api/compiled_source.hpp>

#include <topograd/ir/error.hpp>

namespace topograd {

std::string compiled_source(const codegen::KernelSource&, const std::string& format) {
  throw Error(ErrorCode::Unsupported,
              "dump: --emit " + format + " expects a build with Vulkan (TOPOGRAD_VULKAN=ON)");
}

}  // namespace topograd
