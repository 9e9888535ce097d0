// Programs as plain C99.
#pragma once

#include "../../ir/program.hpp"

#include <span>
#include <string>

namespace topograd::codegen {

/// A program that becomes a C function.
struct CFunction {
  std::string name;   ///< a C identifier
  std::string title;  ///< one line for the comment above it
  ir::Program program;
};

/// One C99 file with a function for each program and, as static functions, what C's library lacks:
///
///     void name(const double* p, const double* d, const double* u, double* out)
///
/// reads parameters, data and uniforms by slot and writes the outputs; a program with tangents has
/// `const double* t`, one with seeds `const double* s` after `u`. Needs the C mathematics library
/// alone. Compiled without contraction and value-changing options (-ffp-contract=off, no
/// -ffast-math) the ops give the evaluator's bits, functions of the library those of the machine's.
/// Guards are left out.
///
/// Throws Error{InvalidArgument} for a name that is no identifier.
std::string c_source(std::span<const CFunction> functions);

}  // namespace topograd::codegen
