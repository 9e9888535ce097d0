// Float64 by 32-bit integers, for devices that lack it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace topograd::codegen {

/// Returns the module with pairs of 32-bit integers (uvec2, low word first) in place of 64-bit
/// floats, and calls of codegen/math/emulated in place of operations on them.
///
/// A number keeps its place in a buffer, its bits are IEEE 754 binary64 everywhere, and every basic
/// operation is correctly rounded, fma included. Bindings keep their names, sizes and strides. The
/// result needs no capability that the module lacks; a module without 64-bit floats is returned as
/// it is. Vectors of doubles become arrays.
///
/// Throws Error{Unsupported} naming the instruction for what has no emulation: matrices, atomic
/// additions and subgroup arithmetic of doubles, and built-ins that the project's shaders do not
/// use. Throws Error{InvalidArgument} if `module` is not SPIR-V. Cost: a few passes over the words;
/// the first call also compiles the library, which takes some 50 ms.
std::vector<std::uint32_t> emulate_float64(std::span<const std::uint32_t> module);

}  // namespace topograd::codegen
