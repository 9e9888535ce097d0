// Source of kernels in compiled formats, in a build without Vulkan: an error.
#include "compiled_source.hpp"

#include "../ir/error.hpp"

namespace topograd {
namespace {

[[noreturn]] void refuse_source(const std::string& format) {
  throw Error(ErrorCode::Unsupported,
              "dump: --emit " + format + " expects a build with Vulkan (TOPOGRAD_VULKAN=ON)");
}

}  // namespace

std::string compiled_source(const codegen::KernelSource&, const std::string& format) {
  refuse_source(format);
}

std::string compiled_source(const runtime::ListedKernel&, const std::string& format) {
  refuse_source(format);
}

}  // namespace topograd
