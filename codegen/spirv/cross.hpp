// Translation of compiled modules to other shading languages, for inspection.
#pragma once

#include "../../ir/enum_table.hpp"

#include <cstdint>
#include <span>
#include <string>

namespace topograd::codegen {

/// HLSL shader model 6.0, MSL 2.3, ESSL 3.10.
enum class Dialect { HLSL, MSL, ESSL };
TG_ENUM_NAMES(Dialect)

/// Returns the module's source in a dialect.
///
/// Throws Error{Unsupported} that names the dialect and the missing feature (64-bit floats in all
/// three, float atomics, 64-bit atomics, ...), Error{InvalidArgument} if `module` is not SPIR-V.
std::string cross(std::span<const std::uint32_t> module, Dialect dialect);

}  // namespace topograd::codegen
