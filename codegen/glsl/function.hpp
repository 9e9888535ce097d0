// A program as a GLSL function, for kernels that are not the solver's.
#pragma once

#include "../../ir/program.hpp"
#include "../kernel.hpp"

#include <span>
#include <string>
#include <string_view>

namespace topograd::codegen {

/// `void NAME(in T p0, in T p1, ..., in T d0, ..., out T r0, ...)`: all parameter slots, then all
/// data slots, then the outputs. Library functions that it needs stand before it.
///
///   precision  f32 or f64, which is T
///
/// Where the program holds zeros or numbers that are not finite the text reads the uint
/// `zero_bits`, a 0 that compilers do not know, which the shader declares before it. Two functions
/// of one precision in one shader must be written by one call: `programs` and `names` go together.
///
/// Throws Error{InvalidArgument} for guards and for leaves of other kinds.
struct NamedProgram {
  std::string_view name;
  const ir::Program* program;
};
std::string write_functions(std::span<const NamedProgram> programs, Precision precision);

}  // namespace topograd::codegen
