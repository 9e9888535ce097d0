// Programs as plain C99.
#pragma once

#include "../../ir/program.hpp"

#include <span>
#include <string>

namespace topograd::codegen {

/// A program to write as a C function.
struct CFunction {
  std::string name;   ///< a C identifier
  std::string title;  ///< one line for the comment above it
  ir::Program program;
};

/// Writes one C99 file with a function for each program and, as static functions, those that C's
/// library lacks:
///
///     void name(const double* p, const double* d, const double* u, double* out)
///
/// reads parameters, data and uniforms by slot and writes the outputs. A program with tangents also
/// has `const double* t` after `u`, one with seeds `const double* s`. The file needs the C
/// mathematics library alone. Compiled without contraction and value-changing options
/// (-ffp-contract=off, no -ffast-math), ops give the evaluator's bits and library functions those
/// of the machine's library. Guards are left out.
///
/// Throws Error{InvalidArgument} for a name that is no identifier.
std::string c_source(std::span<const CFunction> functions);

}  // namespace topograd::codegen
