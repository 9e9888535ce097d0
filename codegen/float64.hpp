// Whose float64 the kernels of a device use.
#pragma once

#include "../ir/enum_table.hpp"

namespace topograd::codegen {

/// The f64 of a device: its own, or by 32-bit integers, with the same bits of basic operations.
/// `automatic` takes its own where there is one.
enum class Float64 { automatic, native, emulated };
TG_ENUM_NAMES(Float64)

}  // namespace topograd::codegen
