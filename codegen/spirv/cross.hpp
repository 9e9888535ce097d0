// Translation of compiled modules to other shading languages: HLSL, MSL, ESSL and WGSL.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "../../ir/enum_table.hpp"

namespace topograd::codegen {

/// HLSL shader model 6.0, MSL 2.3, ESSL 3.10.
enum class Dialect { HLSL, MSL, ESSL };
TG_ENUM_NAMES(Dialect)

/// Returns the module's source in a dialect.
///
/// Throws Error{Unsupported} that names the dialect and the missing feature (64-bit floats in all
/// three, float atomics, 64-bit atomics, ...), Error{InvalidArgument} if `module` is not SPIR-V.
std::string cross(std::span<const std::uint32_t> module, Dialect dialect);

/// Returns a compute module as WGSL.
///
/// Numbers of 64 bits are replaced first (emulate_float64()), so a module that has them computes
/// the same bits by 32-bit integers. Storage buffers keep group and binding. Push constants, which
/// WGSL lacks, are the uniform buffer at group 1, binding 0. WGSL allows a browser to reassociate
/// operations of f32, so results that are `precise` in GLSL pass through integers, by which a
/// browser cannot see two of them as one expression.
///
/// Throws Error{Unsupported} that names what WGSL cannot say: atomics, subgroup operations, 64-bit
/// integers. Throws Error{InvalidArgument} if `module` is not SPIR-V.
std::string wgsl(std::span<const std::uint32_t> module);

}  // namespace topograd::codegen
