// Steps whose linear system another engine holds in lower precision.
#pragma once

namespace topograd::runtime {

namespace vulkan {
class VulkanEngine;
}

/// An ability (abilities.hpp).
class NarrowSolve {
 public:
  virtual ~NarrowSolve() = default;
  /// From here on linearize(), try_step(request) and accept() leave JᵀJ, its preconditioner and
  /// conjugate gradients to `narrow`, of an engine of the same model; points, costs and gradients
  /// stay here. Nothing of it goes through the host. To be called again after each refresh() of the
  /// two; `narrow` outlives these calls. False: they do not go together, and steps stay what they
  /// were.
  virtual bool solve_by(NarrowSolve& narrow) = 0;
  /// Whose ability it is: devices alone have it.
  virtual vulkan::VulkanEngine& engine() = 0;
};

}  // namespace topograd::runtime
