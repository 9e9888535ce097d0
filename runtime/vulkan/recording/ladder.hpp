// The accumulation ladder: what each rung needs of a device, and what takes its place.
#pragma once

#include "../../../codegen/kernel.hpp"
#include "../../device/driver/features.hpp"

#include <optional>
#include <string>

namespace topograd::runtime::vulkan {

/// A rung and why it is used. Where the device lacks what the row of a strategy needs
/// (codegen/accumulations.def), gather_recompute takes its place.
struct Rung {
  codegen::Accumulation accumulation = codegen::Accumulation::gather_recompute;
  std::string why;  ///< "" as asked for, else what was missing
};

/// The rung that serves for `wanted` on a device with `features`.
Rung resolve_rung(std::optional<codegen::Accumulation> wanted, codegen::Precision precision,
                  const Features& features);

}  // namespace topograd::runtime::vulkan
