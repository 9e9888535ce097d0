// Float-controls execution modes (signed zeros, infinities, NaN, denormals) in SPIR-V.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace topograd::codegen {

/// Float controls for one width of floating-point numbers.
///
/// Ask only for what the device lists in VkPhysicalDeviceFloatControlsProperties, and heed its
/// denormBehaviorIndependence and roundingModeIndependence when the two widths differ.
struct FloatWidthControls {
  bool signed_zero_inf_nan_preserve = false;
  bool denorm_preserve = false;
  bool denorm_flush_to_zero = false;  ///< not together with denorm_preserve
  bool rounding_to_nearest_even = false;

  bool operator==(const FloatWidthControls&) const = default;
};

struct FloatControls {
  FloatWidthControls f32;
  FloatWidthControls f64;

  bool operator==(const FloatControls&) const = default;
};

/// Returns `module` with the modes of `controls` on each entry point.
///
/// Widths whose type the module lacks are left out, so one request fits every kernel. Modes and
/// capabilities that exist are not repeated: adding twice equals adding once. GLSL has no portable
/// spelling for these modes, and this way the source of a shader does not depend on the device.
///
/// Throws Error{InvalidArgument} if `module` is not SPIR-V or asks both to keep and to flush
/// denormals. Cost: one pass over the words. Source: SPIR-V 1.6, 2.4 (module layout) and 3.6
/// (execution modes); SPV_KHR_float_controls.
std::vector<std::uint32_t> add_float_controls(std::span<const std::uint32_t> module,
                                              const FloatControls& controls);

}  // namespace topograd::codegen
