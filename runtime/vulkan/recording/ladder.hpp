// The accumulation ladder: what each rung needs of a device, and what takes its place.
#pragma once

#include "../../../codegen/kernel.hpp"
#include "../../device/driver/features.hpp"

#include <optional>
#include <string>

namespace topograd::runtime::vulkan {

/// A rung and why it is used.
///
/// | rung             | f32 needs              | f64 needs              | else            |
/// |------------------|------------------------|------------------------|-----------------|
/// | gather_recompute | nothing                | float64                |                 |
/// | gather_store     | terms in one range     | float64, likewise      | gather_recompute |
/// | atomic_float     | float32 atomics        | float64 atomics        | gather_recompute |
/// | atomic_cas       | nothing                | 64-bit integer atomics | gather_recompute |
struct Rung {
  codegen::Accumulation accumulation = codegen::Accumulation::gather_recompute;
  std::string why;  ///< "" as asked for, else what was missing
};

/// The rung that serves for `wanted` on a device with `features`.
Rung resolve_rung(std::optional<codegen::Accumulation> wanted, codegen::Precision precision,
                  const Features& features);

}  // namespace topograd::runtime::vulkan
