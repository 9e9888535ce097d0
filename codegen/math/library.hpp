// The function library: GLSL that built-ins lack (f64) or get wrong (f32), and its JavaScript.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "../kernel.hpp"

/// Functions are named after the ops (`exp`, `atan2`, `mod`) and carry their precision in GLSL,
/// because one shader may use both: tg_exp_f64, tg_exp_f32. Over the whole domain, with signed
/// zeros, subnormals, infinities and NaN as in C, their errors are at most 1 ulp (erf and rsqrt:
/// 1.5) in both precisions if + - * / sqrt round correctly and subnormals are kept; an f32 division
/// that is off by an ulp adds about as much.
///
/// None relies on fused multiply-adds or 64-bit integers, none computes f32 through double, and all
/// arithmetic is `precise`. The sources are in the files of their subjects next to this file and
/// are part of the binary (embed.cmake).
namespace topograd::codegen::math {

/// A function, or a few constants that belong together.
struct Snippet {
  std::string_view name;
  Precision precision;
  std::string_view needs;  ///< names of other snippets of the same precision, separated by spaces
  std::string_view text;
};

std::span<const Snippet> snippets();

/// True if the library has the function in that precision, e.g. function_exists("exp", f64).
bool has(std::string_view function, Precision precision);

/// True if the GLSL built-in of that name is exact (or rounds correctly, where the device does) and
/// defined everywhere: sqrt, abs, floor, ceil, fma. All others come from this library.
bool is_built_in(std::string_view function);

/// The name that a shader calls: "tg_exp_f64", or "floor" for an exact built-in.
///
/// Throws Error{InvalidArgument} for an unknown function.
std::string spelling(std::string_view function, Precision precision);

/// The source of one function alone, without the functions that it needs.
///
/// Throws Error{InvalidArgument} for an unknown function.
std::string_view source(std::string_view function, Precision precision);

/// The sources of the functions and of all that they need, each once, before its users.
///
/// The result depends on the set of functions, not on their order. Built-ins add nothing.
///
/// Throws Error{InvalidArgument} for an unknown function. Cost: a few microseconds per function.
std::string library(std::span<const std::string_view> functions, Precision precision);
std::string library(const std::vector<std::string>& functions, Precision precision);

/// Names of the functions that ops may use, alphabetically, without built-ins and internal pieces.
std::span<const std::string_view> functions();

/// IEEE 754 binary64 on pairs of 32-bit integers (uvec2, low word first) in GLSL: f64_add, f64_mul,
/// ... and a main() that calls them on the array `v` of uvec2, which is to be declared before.
std::string_view emulated_float64();

/// The name that JavaScript calls: "tg_exp_f64", or "Math.floor" for an exact built-in.
///
/// Throws Error{InvalidArgument} for an unknown function.
std::string javascript_spelling(std::string_view function);

/// The f64 functions of library.hpp in JavaScript, with all that they need, each once, before its
/// users; also "fma".
///
/// They are the snippets of GLSL in another spelling, so they have the same bits in every browser,
/// which `Math.sin` and its like have not. What snippets do to words of 64-bit floats is written
/// with a typed array. Throws Error{InvalidArgument} for an unknown function.
std::string javascript_library(std::span<const std::string_view> functions);

}  // namespace topograd::codegen::math
