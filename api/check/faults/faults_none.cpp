// The check of failures in builds without Vulkan: there is no driver.
#include "faults.hpp"

#include "../../../ir/error.hpp"

namespace topograd::check {

bool FaultReport::broken() const { return note.empty(); }

FaultReport check_faults(const FaultOptions& options) {
  options.validate();
  if (options.backend == Backend::cpu) return {.note = kNoDriver};
  throw Error(
      ErrorCode::Unsupported,
      "check faults: this build has no Vulkan backend; configure with -DTOPOGRAD_VULKAN=ON");
}

}  // namespace topograd::check
