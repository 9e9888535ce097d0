// Checks that need a driver, in builds without Vulkan: counts are 0, and calls are refused.
#include "../../ir/error.hpp"
#include "faults/faults.hpp"
#include "faults/soak.hpp"
#include "pipelines.hpp"

namespace topograd::check {

void watch_driver_objects() {}
std::uint64_t driver_objects() { return 0; }
std::uint64_t driver_bytes() { return 0; }
void let_go_of_devices() {}

bool FaultReport::broken() const { return note.empty(); }

FaultReport check_faults(const FaultOptions& options) {
  options.validate();
  if (options.backend == Backend::cpu) return {.note = kNoDriver};
  throw Error(
      ErrorCode::Unsupported,
      "check faults: this build has no Vulkan backend; configure with -DTOPOGRAD_VULKAN=ON");
}

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
