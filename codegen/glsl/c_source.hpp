// Programs as plain C99 and as JavaScript.
#pragma once

#include "../../ir/program.hpp"

#include <span>
#include <string>

namespace topograd::codegen {

/// A program to write as a function of plain numbers.
struct PlainFunction {
  std::string name;   ///< an identifier
  std::string title;  ///< one line for the comment above it
  ir::Program program;
};
using CFunction = PlainFunction;

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

/// Writes one JavaScript module that exports a function for each program:
///
///     name(p, d, u, out)
///
/// with the arguments of c_source() as Float64Array. Numbers of JavaScript are binary64 and its
/// + - * / sqrt round once, so ops give the evaluator's bits. Other functions are those of
/// math/library.hpp in the module itself, with the same bits in every browser. Guards are left out.
///
/// Throws Error{InvalidArgument} for a name that is no identifier.
std::string javascript_source(std::span<const PlainFunction> functions);

}  // namespace topograd::codegen
