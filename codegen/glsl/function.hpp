// Programs as GLSL functions, for kernels outside the solver.
#pragma once

#include "../../ir/program.hpp"
#include "../kernel.hpp"

#include <span>
#include <string>
#include <string_view>

namespace topograd::codegen {

/// `void NAME(in T p0, in T p1, ..., in T d0, ..., out T r0, ...)`: all parameter slots, then all
/// data slots, then the outputs. The library functions that it needs are written before it.
///
///   precision  f32 or f64, the precision of T
///
/// If the program has zeros or numbers that are not finite, the source reads the uint `zero_bits`,
/// a 0 that compilers do not know; the shader must declare it first. Functions of one precision in
/// one shader must be written by one call: `programs` and `names` correspond.
///
/// Throws Error{InvalidArgument} for guards and for leaves of other kinds.
struct NamedProgram {
  std::string_view name;
  const ir::Program* program;
};
std::string write_functions(std::span<const NamedProgram> programs, Precision precision);

}  // namespace topograd::codegen
