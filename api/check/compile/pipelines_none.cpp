// The self-test of a device's compiler, in a build without Vulkan: an error.
#include "pipelines.hpp"

#include "../../../ir/error.hpp"

namespace topograd::check {

std::vector<CatalogueKernel> kernel_catalogue() { return {}; }

CompileReport check_compile(std::span<const CatalogueKernel>, const CompileOptions&) {
  throw Error(ErrorCode::Unsupported,
              "check compile: expected a build with Vulkan (TOPOGRAD_VULKAN=ON)");
}

double CompiledKernel::sum_of(std::span<const char* const>) const { return 0; }
double CompiledKernel::registers() const { return 0; }
double CompiledKernel::spills() const { return 0; }
double CompiledKernel::shared_bytes() const { return 0; }
double CompiledKernel::code_bytes() const { return 0; }

}  // namespace topograd::check
