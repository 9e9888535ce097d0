// The accumulation strategies: what each strategy needs of a device, and what takes its place.
#pragma once

#include "../../../codegen/kernel.hpp"
#include "../../device/driver/features.hpp"

#include <optional>
#include <string>

namespace topograd::runtime::vulkan {

/// A strategy and why it is used. Where the device lacks what the row of a strategy needs
/// (codegen/accumulations.def), gather_recompute takes its place.
struct AccumulationChoice {
  codegen::Accumulation accumulation = codegen::Accumulation::gather_recompute;
  std::string why;  ///< "" as asked for, else what was missing
};

/// The strategy that serves for `wanted` on a device with `features`.
AccumulationChoice choose_accumulation(std::optional<codegen::Accumulation> wanted,
                                       codegen::Precision precision, const Features& features);

}  // namespace topograd::runtime::vulkan
